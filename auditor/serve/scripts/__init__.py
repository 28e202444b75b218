"""From files, whatever they are, to the commands that start servers."""
