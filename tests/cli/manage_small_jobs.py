"""`manage.py` of a broker whose jobs take three messages, and not a million."""

import manage
from broker_app.features.jobs import plan

if __name__ == "__main__":
    plan.MAX_MESSAGES = 3
    manage.main()
