"""Small forks with their upstream, told as stories."""
