"""A refund agent's day: sample sessions, good and bad, and the policy that tells them apart."""
