"""Tests of the first page."""
