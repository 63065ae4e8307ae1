"""The web page: alerts as they come, sessions, reviews, incidents, rules, reports and the policy."""
