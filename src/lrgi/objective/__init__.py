"""What is minimised: Eq. 1, and the predictors it needs."""
