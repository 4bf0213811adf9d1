"""Everything that runs rsync from the herder: commands, output, verdicts, child programs, ssh-agent."""
