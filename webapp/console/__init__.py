"""What people and programs see: pages, API and definitions of replicators, with all that is known of them."""
