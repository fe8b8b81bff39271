"""`manage.py broker` that gives up workers after a second, not after ten, for tests that end them."""

import manage
from broker_app.features.callbacks.webhooks import worker_poster
from tests.support.patience import patient

if __name__ == "__main__":
    vars(worker_poster).update(TAKE_S=patient(1.0), BACK_S=patient(1.0))
    manage.main()
