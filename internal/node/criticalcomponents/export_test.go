package criticalcomponents

// Prepare does what SetupWithManager does before a manager is involved, for tests that call Reconcile themselves.
func (r *Reconciler) Prepare() { r.waiting = newWaiting(r.Metrics, r.Backoff) }
