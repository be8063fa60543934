package main

// dashboard is a dashboard, independent of the program that shows it.
type dashboard struct {
	// name is the name of its files, and of the object in Kubernetes.
	name, title string
	variables   []variable
	rows        []row
}

// variable is a label whose values the user chooses. Queries contain its name after $, as a regular expression.
type variable struct {
	name, title string
	// selector selects the series whose values of the label the user can choose.
	selector string
}

// row is a group of panels, which fill lines of maxWidth columns from left to right.
type row struct {
	title  string
	panels []panel
}

// kind is the form of a panel.
type kind int

const (
	// lines are time series.
	lines kind = iota
	// number is the latest value of each series.
	number
)

// unit is the unit of the values of a panel.
type unit struct{ perses, plutono string }

var (
	count      = unit{"decimal", "short"}
	seconds    = unit{"seconds", "s"}
	bytes      = unit{"bytes", "bytes"}
	ratio      = unit{"percent-decimal", "percentunit"}
	requests   = unit{"requests/sec", "reqps"}
	operations = unit{"ops/sec", "ops"}
)

// maxWidth is the number of columns of a dashboard, and height the number of lines of a panel.
const (
	maxWidth = 24
	height   = 8
)

// panel shows the results of queries.
type panel struct {
	kind  kind
	title string
	// advice says which values are bad, and names the alert about them if there is one.
	advice  string
	unit    unit
	width   int
	queries []query
}

// query is a query in PromQL. The legend names labels in double braces.
type query struct{ expr, legend string }

// place is the position of a panel.
type place struct{ x, y, width, height int }

// places returns the positions of the panels of a row whose first line is y, and the first line below the row.
func (r row) places(y int) (found []place, next int) {
	x := 0
	for _, each := range r.panels {
		if x+each.width > maxWidth {
			x, y = 0, y+height
		}
		found = append(found, place{x, y, each.width, height})
		x += each.width
	}
	return found, y + height
}
