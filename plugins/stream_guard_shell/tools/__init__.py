"""What programs do, family by family: tables, and how their arguments become effects."""
