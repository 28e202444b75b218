"""Reading the compared trees: git, releases, what differs, and the history between them."""
