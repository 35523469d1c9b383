"""What a random program may say: one file per topic, each with a table of proposals."""
