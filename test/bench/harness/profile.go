package harness

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// profile writes profiles of the process, round after round, until the process ends. Each round takes ten seconds. The names of its files
// contain the time at which it began.
func (p *Program) profile(process *child.Process) {
	for p.run.Ctx.Err() == nil && process.Failure() == nil {
		round := p.binary.Name + "-" + time.Now().Format("150405")
		for _, each := range []struct{ name, path string }{{"cpu", "profile?seconds=10"}, {"heap", "heap"}, {"goroutine", "goroutine"}} {
			content, err := local.Get(p.run.Ctx, http.DefaultClient, p.URL("/debug/pprof/"+each.path))
			if err != nil { // the process is starting or ending
				_ = local.Pause(p.run.Ctx, 100*time.Millisecond) // the loop checks the context
				break
			}
			file := filepath.Join(p.run.Profiles, fmt.Sprintf("%s.%s.pprof", round, each.name))
			if err := os.WriteFile(file, content, 0o600); err != nil {
				p.run.Detail("a profile is missing: %v", err)
			}
		}
	}
}
