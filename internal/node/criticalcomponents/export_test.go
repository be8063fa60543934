package criticalcomponents

// Prepare does the part of SetupWithManager that needs no manager, for tests that call Reconcile directly.
func (r *Reconciler) Prepare() { r.waiting = newWaiting(r.Metrics, backoff(r.Config)) }
