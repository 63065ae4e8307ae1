"""The OWASP Agent Control Standard, version 0.1.0: serve as a Guardian, at ``POST /acs``."""
