"""Operations of models on rows of numbers, in the form that each device has."""
