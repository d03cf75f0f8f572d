"""Why it is slow: the table of rules, the signals they look at, and the causes that are left."""
