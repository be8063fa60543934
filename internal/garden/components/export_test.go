package components

// Graphs of invented rows.
var (
	ReconciliationOf = reconciliation
	DeletionOf       = deletion
)
