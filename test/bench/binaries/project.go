package binaries

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// project measures project-controller as docs/reference/benchmarks.md#projects describes.
//
// The time of the first convergence is compared with that of a bare client on separate API servers, before and after, which does for each
// Project first the namespace and then everything else at once. It does not write to Projects; the time of a client that also does that is
// printed too. If API server and writer share a few processors, each request costs processor time: a write to a Project, which the API
// server validates by the rules of its CRD, takes about three times as much as the creation of a role or binding. The processor time of API
// server, etcd and writer is printed for all of them, because other load on the machine affects it less than the elapsed time.
//
// Then the process is stopped, the namespaces are filled, and it starts again with a short period of stale checks, no Project too young to
// be stale, and no deletion. The run fails unless exactly the unused Projects are marked.
type project struct {
	projects, shoots, secrets int
	// period is that of the stale checks after the first convergence, rest is the duration of the idle measurement.
	period, rest time.Duration
	// generated lets the controller choose the names of the namespaces; alone omits the bare clients.
	generated, alone bool

	*harness.Run
}

const (
	projectBinary = "project-controller"
	// projectWorkers is how many Projects the controller reconciles concurrently by default, and the bare client too.
	projectWorkers = 5
	// filling is how many objects are created concurrently before the measurement.
	filling = 32
	// projectConfig contains the section of the controller, and of our own settings.
	projectConfig = `apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: $SOURCE}
leaderElection: {leaderElect: false} # so that all requests are about Projects
` + harness.ServerConfig + "controllers: {project: {%s}}\nespalier: {project: {%s}}\n"
)

func projectBenchmark() harness.Benchmark {
	p := &project{period: 20 * time.Second, rest: time.Minute}
	return harness.Benchmark{
		Name: "project", Summary: "many Projects and Shoots, with project-controller",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&p.projects, "projects", 5000, "`number` of Projects")
			flags.IntVar(&p.shoots, "shoots", 20000, "`number` of Shoots in all")
			flags.IntVar(&p.secrets, "secrets", 2, "`number` of Secrets of each Shoot")
			flags.BoolVar(&p.generated, "generated", false, "let the controller name the namespaces")
			flags.BoolVar(&p.alone, "alone", false, "omit the bare clients, and with them the comparison of the first convergence")
		},
		Smoke: func() { p.projects, p.shoots, p.period, p.rest = 30, 120, time.Second, 3*time.Second },
		Jobs:  job(p.measure, &p.projects, &p.shoots, &p.secrets),
	}
}

func (p *project) measure(r *harness.Run) {
	p.Run = r
	var floors []time.Duration
	var everything time.Duration
	if !p.alone {
		floors = append(floors, p.floor("before", false))
	}
	own := p.own()
	if !p.alone {
		floors = append(floors, p.floor("after", false))
		everything = p.floor("everything", true)
	}
	workload := fmt.Sprintf("%d Projects, %d Shoots × %d Secrets", p.projects, p.shoots, p.secrets)
	p.Add(harness.On(workload, p.rows(own, floors, everything)...))
}

func (p *project) rows(own projectResult, floors []time.Duration, everything time.Duration) []harness.Row {
	first, again, checks := own.convergence, own.restart, own.checks
	perProject, perCheck := float64(len(first.sent))/float64(p.projects), float64(own.checking.Microseconds())/checks
	atRest := fmt.Sprintf("requests in %s at rest, stale checks every %s", p.rest, p.period)
	return []harness.Row{
		harness.Inform("first convergence, from the first write to the last", "%s (%s from the start of the process)",
			harness.Seconds(first.took), harness.Seconds(first.settled)).WithNote("processor time: %s", first.used),
		harness.Ratio("first convergence ÷ namespaces, roles and bindings", 1.3, first.took, floors...),
		harness.Ratio("first convergence ÷ a client that writes to the Projects too", 0, first.took, everything),
		harness.Inform("requests for each Project", "%.2f", perProject).WithNote("%s", first.sent),
		harness.Exactly(atRest, len(own.rest), 0).WithNote("%s", own.rest),
		harness.Inform("stale checks at rest", "%.0f", checks),
		harness.Inform("processor time for each check, with all else that the process does", "%.2f µs", perCheck),
		harness.AtMost("resident memory at rest", "%.0f MiB", mebibytes(own.memory), 120),
		harness.Inform("highest resident memory since its start", "%s", harness.Mebibytes(own.peak)),
		harness.Inform("restart until the main loop has processed all Projects", "%s", harness.Seconds(again.looked)),
		harness.Inform("restart until nothing is left to write either", "%s", harness.Seconds(again.settled)).
			WithNote("processor time: %s", again.used),
		harness.Inform("requests of the restart", "%d", len(again.sent)).WithNote("%s", again.sent),
	}
}

// garden is a separate control plane with the Projects.
type garden struct {
	*harness.Cluster
	// kubeconfig is that of the controller's ServiceAccount.
	kubeconfig []byte
	projects   []*corev1beta1.Project
}

// newGarden starts a control plane and creates the Projects.
func (p *project) newGarden(name string) *garden {
	g := &garden{projects: make([]*corev1beta1.Project, p.projects)}
	g.Cluster = p.StartCluster(name, harness.Setup{Audited: []string{harness.User(projectBinary)}})
	_, err := binary.Install(p.Ctx, g.Client, "deploy/project-controller/crds/*.yaml")
	p.Check(err)
	g.AwaitServed(corev1beta1.SchemeGroupVersion.WithKind("Project"), corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	g.kubeconfig = g.Identity(projectBinary, harness.Namespace, binary.Source, binary.Target)
	p.Parallel(p.projects, filling, func(i int) {
		g.projects[i] = newProject(i, p.generated)
		g.Create(g.projects[i])
	})
	return g
}

// floor measures a bare client on a new control plane.
func (p *project) floor(name string, withProjects bool) time.Duration {
	g := p.newGarden("floor-" + name)
	c := p.ClientOf(g.kubeconfig)
	before := g.Usage().With(harness.Self())
	profiled := p.Profile("floor-"+name, 20*time.Second, nil, g.Cluster)
	took := p.Timed(len(g.projects), projectWorkers, func(i int) { p.createForProject(c, g.projects[i], withProjects) })
	p.Step("bare client, %s: %s; processor time: %s", name, harness.Seconds(took), g.Usage().With(harness.Self()).Since(before))
	profiled()
	p.Check(g.Stop())
	return took
}

// projectResult is the result of the controller.
type projectResult struct {
	convergence, restart projectPhase
	// rest are the requests while nothing happens; checks and checking are the number of stale checks then, and the processor time.
	rest         harness.Requests
	checks       float64
	checking     time.Duration
	memory, peak int64
}

// projectPhase is a part of the controller's work.
type projectPhase struct {
	took    time.Duration // from its first write to its last
	looked  time.Duration // from the start of the process until the main loop has processed all Projects
	settled time.Duration // from the start of the process until both loops have, and all queues are empty
	used    harness.Usage // by all processes until then
	sent    harness.Requests
}

// own measures the controller in its own garden.
func (p *project) own() (r projectResult) {
	g := p.newGarden("own")
	program := p.Program(projectBinary, g.kubeconfig)
	r.convergence = p.follow(g, program, fmt.Sprintf(projectConfig, "", ""), 0)
	p.Step("first convergence: %s; processor time until it is in sync: %s", harness.Seconds(r.convergence.took), r.convergence.used)
	p.requireReady(g)
	p.Check(program.Stop())
	p.addUses(g)
	// Each check determines whether the Project is used: no Project is too young to be stale, and none is deleted.
	checking := fmt.Sprintf(projectConfig, fmt.Sprintf("staleSyncPeriod: %s, minimumLifetimeDays: 0", p.period), `staleDeletion: "Off"`)
	r.restart = p.follow(g, program, checking, g.AuditEnd())
	p.requireStale(g)
	p.atRest(g, program, &r)
	r.memory, r.peak = program.Memory()
	p.Check(errors.Join(p.SaveProfile(program, "/debug/pprof/heap", "rest.heap"), program.Stop(), g.Stop()))
	return r
}

// follow starts the controller, waits until it is in sync, and counts its requests since then.
func (p *project) follow(g *garden, program *harness.Program, config string, place int64) (f projectPhase) {
	before := g.Usage()
	program.Configure(config)
	program.Start()
	profiled := p.Profile(fmt.Sprintf("convergence-%d", place), 20*time.Second, program, g.Cluster)
	program.Await("the controller to be in sync", func(ctx context.Context) error {
		// Each read makes the process count all Projects, which would slow down the measured work.
		if err := local.Pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		metrics, err := program.ReadMetrics(ctx)
		if err != nil {
			return err
		}
		f.settled = time.Since(program.Started)
		looked := successes(metrics, "project") >= float64(p.projects)
		if looked && f.looked == 0 {
			f.looked = f.settled
		}
		busy := metrics.Sum("controller_runtime_active_workers") + metrics.Sum("workqueue_depth")
		if !looked || successes(metrics, "project-stale") < float64(p.projects) || busy > 0 {
			return fmt.Errorf("%.0f objects are queued or in progress", busy)
		}
		return nil
	})
	f.used = g.Usage().With(program.Usage()).Since(before)
	profiled()
	f.sent = g.Requests(place, harness.User(projectBinary)).Only(aboutObjects)
	// Events are sent asynchronously.
	f.took = f.sent.Only(func(r harness.Request) bool {
		return r.IsWrite() && r.Object.Resource != "events" && r.Object.Resource != "selfsubjectaccessreviews"
	}).Period()
	return f
}

// successes returns the number of successful reconciles.
func successes(m harness.Metrics, controller string) float64 {
	const name = "controller_runtime_reconcile_total"
	return m.Sum(name, "controller", controller) - m.Sum(name, "controller", controller, "result", "error")
}

// aboutObjects reports whether a request is about an object and not a watch, which is renewed every few minutes.
func aboutObjects(r harness.Request) bool { return r.Verb != "watch" && r.Object.Resource != "" }

// requireReady fails unless all Projects are Ready and all their objects exist.
func (p *project) requireReady(g *garden) {
	projects := &corev1beta1.ProjectList{}
	p.Check(g.Client.List(p.Ctx, projects))
	for _, each := range projects.Items {
		if each.Status.Phase != corev1beta1.ProjectReady || each.Status.ObservedGeneration != each.Generation {
			p.Check(fmt.Errorf("project %s is %q of generation %d, not Ready of %d",
				each.Name, each.Status.Phase, each.Status.ObservedGeneration, each.Generation))
		}
	}
	namespaces := &corev1.NamespaceList{}
	p.Check(g.Client.List(p.Ctx, namespaces, client.MatchingLabels{"gardener.cloud/role": "project"}))
	if len(namespaces.Items) != len(projects.Items) {
		p.Check(fmt.Errorf("%d Projects have %d namespaces", len(projects.Items), len(namespaces.Items)))
	}
}

// atRest counts the requests of the controller while nothing happens, and measures the cost of its checks.
func (p *project) atRest(g *garden, program *harness.Program, r *projectResult) {
	p.Pause(3 * time.Second) // the last Events arrive in this time
	effort := func() (checks float64, used time.Duration) {
		return successes(program.Metrics(), "project-stale"), program.Usage().Total()
	}
	checks, used := effort()
	r.rest = restRequests(p.Run, g.Cluster, harness.User(projectBinary), p.rest).Only(aboutObjects)
	checksAfter, usedAfter := effort()
	r.checks, r.checking = checksAfter-checks, usedAfter-used
	if r.checks == 0 {
		p.Check(errors.New("no Project was checked"))
	}
}
