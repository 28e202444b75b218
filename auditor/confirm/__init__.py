"""A second reading of what would be reported, by another parser than the first."""
