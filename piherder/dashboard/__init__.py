"""The first page: what needs a person, what runs, what comes, who holds which lane, and the last day."""
