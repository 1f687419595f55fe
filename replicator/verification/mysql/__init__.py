"""MySQL and MariaDB, read for comparisons."""
