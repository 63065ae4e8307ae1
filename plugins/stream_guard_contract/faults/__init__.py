"""What breaks in a scenario: fault effects, context attacks, and the plan of which call meets which fault."""
