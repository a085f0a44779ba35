"""What a trained recommender does in use: lists for everybody, people it has never seen, and new clicks."""
