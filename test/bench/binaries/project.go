package binaries

import (
	"errors"
	"fmt"
	"slices"
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
// The time of the first convergence is compared with the time of a bare client on separate API servers, before and after, which
// creates for each Project first the namespace and then everything else at once. It does not write to Projects.
//
// Then the process is stopped, the namespaces are filled, and it starts again with a short period of stale checks, a configuration in which
// no Project is too young to be stale, and none is deleted. The run fails unless exactly the unused Projects are marked.
type project struct {
	*harness.Run
	projects, shoots, secrets int
	// period is the period of the stale checks after the first convergence, rest is the duration of the idle measurement.
	period, rest time.Duration
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
	p := &project{}
	return harness.Benchmark{
		Name: "project", Summary: "many Projects and Shoots, with project-controller",
		Sizes: []harness.Size{
			harness.Sized(&p.projects, "projects", 5000, 30, "`number` of Projects"),
			harness.Sized(&p.shoots, "shoots", 20000, 120, "`number` of Shoots in all"),
			harness.Sized(&p.secrets, "secrets", 2, 2, "`number` of Secrets of each Shoot"),
			harness.Sized(&p.period, "", 20*time.Second, time.Second, ""),
			harness.Sized(&p.rest, "", time.Minute, 3*time.Second, ""),
		},
		Jobs: harness.One(p.measure),
	}
}

func (p *project) measure(r *harness.Run) {
	p.Run = r
	before := p.floor("before")
	took, rows := p.own()
	ratio := harness.Ratio("first convergence ÷ namespaces, roles and bindings", 1.3, took, before, p.floor("after"))
	p.Add(harness.On(fmt.Sprintf("%d Projects, %d Shoots × %d Secrets", p.projects, p.shoots, p.secrets), slices.Insert(rows, 0, ratio)...))
}

// garden is a control plane of its own, with the Projects.
type garden struct {
	*harness.Cluster
	// kubeconfig is the kubeconfig of the controller's ServiceAccount.
	kubeconfig []byte
	projects   []*corev1beta1.Project
}

// newGarden starts a control plane and creates the Projects.
func (p *project) newGarden(name string) *garden {
	g := &garden{projects: make([]*corev1beta1.Project, p.projects)}
	g.Cluster = p.StartCluster(name, local.Options{}, projectBinary)
	g.Install("deploy/project-controller/crds/*.yaml",
		corev1beta1.SchemeGroupVersion.WithKind("Project"), corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	g.kubeconfig = g.Identity(projectBinary, harness.Namespace, binary.Source, binary.Target)
	p.Parallel(p.projects, filling, func(i int) {
		g.projects[i] = newProject(i)
		g.Create(g.projects[i])
	})
	return g
}

// floor returns the time that the bare client takes on a new control plane.
func (p *project) floor(name string) time.Duration {
	g := p.newGarden("floor-" + name)
	c := p.NewClient(p.ClientConfig(g.kubeconfig))
	took := p.Timed(len(g.projects), projectWorkers, func(i int) { p.createForProject(c, g.projects[i]) })
	p.Step("bare client, %s: %s", name, harness.Seconds(took))
	p.Check(g.Stop())
	return took
}

// own measures the controller in its own garden. It returns the time of the first convergence and the rows about the later phases.
func (p *project) own() (took time.Duration, rows []harness.Row) {
	g := p.newGarden("own")
	program := p.Program(projectBinary, g.kubeconfig)
	inSync := p.start(program, fmt.Sprintf(projectConfig, "", ""))
	// Events are sent asynchronously.
	took = g.Requests(0, projectBinary).Only(func(r harness.Request) bool {
		return r.IsWrite() && r.ObjectRef.Resource != "events" && r.ObjectRef.Resource != "selfsubjectaccessreviews"
	}).Period()
	p.Step("first convergence: %s, in sync %s after the start of the process", harness.Seconds(took), harness.Seconds(inSync))
	p.requireReady(g)
	program.Stop()
	p.addUses(g)
	// Each check determines whether the Project is used: no Project is too young to be stale, and none is deleted.
	checking := fmt.Sprintf(projectConfig, fmt.Sprintf("staleSyncPeriod: %s, minimumLifetimeDays: 0", p.period), `staleDeletion: "Off"`)
	restart := p.start(program, checking)
	p.requireStale(g)
	before := checked(program.Metrics())
	resting := atRest(p.Run, g.Cluster, projectBinary, p.rest, func(r harness.Request) bool {
		return r.Counts() && r.ObjectRef.Resource != ""
	})
	if checked(program.Metrics()) == before {
		p.Check(errors.New("no Project was checked at rest"))
	}
	rows = []harness.Row{
		resting,
		memory("resident memory at rest", program, 120),
		harness.Inform("restart until in sync", "%s", harness.Seconds(restart)),
	}
	program.Stop()
	p.Check(g.Stop())
	return took, rows
}

// start starts the controller and waits until it is in sync: both loops have processed all Projects, and all queues are empty.
func (p *project) start(program *harness.Program, config string) time.Duration {
	program.Configure(config)
	program.Start()
	program.AwaitMetrics("the controller to be in sync", func(metrics harness.Metrics) error {
		busy := metrics.Sum("controller_runtime_active_workers") + metrics.Sum("workqueue_depth")
		if min(successes(metrics, "project"), checked(metrics)) < float64(p.projects) || busy > 0 {
			p.Pause(500 * time.Millisecond) // each read makes the process count all Projects, which slows down the measured work
			return fmt.Errorf("%.0f objects are queued or in progress", busy)
		}
		return nil
	})
	return time.Since(program.Started)
}

// checked returns the number of stale checks.
func checked(m harness.Metrics) float64 { return successes(m, "project-stale") }

// successes returns the number of successful reconciles.
func successes(m harness.Metrics, controller string) float64 {
	const name = "controller_runtime_reconcile_total"
	return m.Sum(name, "controller", controller) - m.Sum(name, "controller", controller, "result", "error")
}

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
