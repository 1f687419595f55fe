"""What is tidied up."""
