"""What people decide about labels: how it is kept, what it says of all labels, and as which table it goes out."""
