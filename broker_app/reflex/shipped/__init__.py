"""Reflexes that come with MOM. All but the schema check compute little, and run in the broker.

| library | function | kinds | module |
|---|---|---|---|
| `mom` | `audit` | arrival, delivery | `audit` |
| `mom` | `set_headers` | arrival | `headers` |
| `mom` | `limit_rate` | arrival, registration | `rate_limit` |
| `mom` | `copy_to_broker` | arrival | `copies` |
| `mom` | `delete_copy` | delivery | `copies` |
| `mom` | `delete_copies` | service | `copy_deletion` |
| `mom-schema` | `check_schema` | arrival, delivery | `schema`, in a process |
| `RE_LocalService` | `REenableCallbacks` | registration | `registrations` |
| `RE_LogService` | `RE_LPconnectSvcToBkupLog` | registration | `registrations` |
"""
