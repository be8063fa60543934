package main

import (
	"fmt"
	"strings"
)

// chosen selects the series of the namespaces and jobs that the user of the dashboard chooses.
const chosen = `namespace=~"$namespace", job=~"$job"`

// managedResources returns the dashboard of ManagedResources, which is also for installations without a garden. In its queries, $chosen
// stands for the selection.
func managedResources() dashboard {
	const selector = "espalier_managedresource_watches"
	all := dashboard{
		name: "espalier-managedresources", title: "ManagedResources",
		variables: []variable{
			{name: "namespace", title: "Namespace", selector: selector},
			{name: "job", title: "Job", selector: selector + `{namespace=~"$namespace"}`},
		},
		rows: []row{
			managedResourceGlance(),
			managedResourceSets(),
			managedResourceDrift(),
			managedResourceSpeed(),
			managedResourceWork(),
			managedResourceRequests(),
			managedResourceGarbage(),
			managedResourceProcesses(),
		},
	}
	for _, r := range all.rows {
		for _, p := range r.panels {
			for i := range p.queries {
				p.queries[i].expr = strings.ReplaceAll(p.queries[i].expr, "$chosen", chosen)
			}
		}
	}
	return all
}

// setsWith returns the query for the number of ManagedResources with a status of a condition.
func setsWith(condition, status string) []query {
	return []query{{
		fmt.Sprintf(`sum(max by (namespace, job, status) (espalier_managedresource_sets{$chosen, condition=%q, status=%q}))`, condition, status),
		"sets",
	}}
}

// setsByStatus returns the query for the numbers of ManagedResources by the status of a condition.
func setsByStatus(condition string) []query {
	return []query{{
		fmt.Sprintf(`sum by (status) (max by (namespace, job, status) (espalier_managedresource_sets{$chosen, condition=%q}))`, condition),
		"{{status}}",
	}}
}

func managedResourceGlance() row {
	return row{"At a glance", []panel{
		{
			number, "Leaders",
			"Replicas that hold their lease: 1 for each installation. **0:** nothing is applied or repaired; read what the " +
				"replicas log about the lease, and look who holds it (`kubectl get lease`). Empty: leader election is switched " +
				"off.",
			count, 4,
			[]query{{`sum(leader_election_master_status{$chosen})`, "leaders"}},
		},
		{
			number, "Sets not applied",
			"ManagedResources with the condition ResourcesApplied False. **Not 0:** `kubectl get managedresources -A`; the " +
				"message of the condition names each object and what is wrong with it.",
			count, 4, setsWith("applied", "false"),
		},
		{
			number, "Sets unhealthy",
			"ManagedResources with the condition ResourcesHealthy False. **Not 0:** `kubectl get managedresources -A`; the " +
				"message of the condition names every unhealthy object. Look at these.",
			count, 4, setsWith("healthy", "false"),
		},
		{
			number, "Sets rolling out",
			"ManagedResources with the condition ResourcesProgressing True. A while after a change that is normal. **Long:** " +
				"the message names what it waits for.",
			count, 4, setsWith("progressing", "true"),
		},
		{
			number, "Objects not as desired",
			"Objects that could not be written, or that another ManagedResource holds. **Not 0:** the condition " +
				"ResourcesApplied of their sets says which and why; see also *Objects by state*.",
			count, 4,
			[]query{{`sum(espalier_managedresource_objects{$chosen, state!="applied"})`, "objects"}},
		},
		{
			number, "Drift repairs in an hour",
			"Objects restored within an hour after another client changed or deleted them. **Rising:** find out below which " +
				"field manager it is; the Events `DriftRepaired` name every object.",
			count, 4,
			[]query{{`sum(increase(espalier_managedresource_drift_repairs_total{$chosen}[1h])) or vector(0)`, "repairs"}},
		},
	}}
}

func managedResourceSets() row {
	return row{"Sets and objects", []panel{
		{
			lines, "ResourcesApplied",
			"ManagedResources by the status of the condition ResourcesApplied. **false:** read the message of the condition. " +
				"**progressing for long:** mostly an object in deletion with a finalizer that no controller removes; the message " +
				"names it.",
			count, 6, setsByStatus("applied"),
		},
		{
			lines, "ResourcesHealthy",
			"ManagedResources by the status of the condition ResourcesHealthy. **false:** the message names the unhealthy " +
				"objects. **unknown for long:** the set was not checked since it changed; see whether the health controller fails " +
				"in *Failed reconciliations*.",
			count, 6, setsByStatus("healthy"),
		},
		{
			lines, "ResourcesProgressing",
			"ManagedResources by the status of the condition ResourcesProgressing. **true for long:** a rollout does not come " +
				"to its end; the message names the object. Look at its Pods.",
			count, 6, setsByStatus("progressing"),
		},
		{
			lines, "Objects by state",
			"Objects of all sets. **failed:** could not be written, see the condition ResourcesApplied of their sets. " +
				"**claimed:** another ManagedResource holds the object; take it out of one of the two.",
			count, 6,
			[]query{{`sum by (state) (espalier_managedresource_objects{$chosen})`, "{{state}}"}},
		},
	}}
}

func managedResourceDrift() row {
	return row{"Drift", []panel{
		{
			lines, "Drift repairs by kind",
			"Objects restored after another client changed or deleted them, by kind. **Again and again:** two clients change " +
				"the same object. Stop the other one, or take the object out of the set; the Events `DriftRepaired` and " +
				"`DriftRepairPaused` name it.",
			count, 8,
			[]query{
				{
					`sum by (group, kind) (increase(espalier_managedresource_drift_repairs_total{$chosen}[5m])) or on() ` +
						`label_replace(vector(0), "kind", "none", "", "")`,
					"{{kind}}.{{group}}",
				},
			},
		},
		{
			lines, "Drift repairs by manager",
			"The same by the field manager that made the change. *other:* its name is in the Event. *unknown:* mostly a " +
				"deletion. **A program among them:** it does not know that these objects are managed; configure it to leave them " +
				"alone.",
			count, 8,
			[]query{
				{
					`sum by (manager) (increase(espalier_managedresource_drift_repairs_total{$chosen}[5m])) or on() ` +
						`label_replace(vector(0), "manager", "none", "", "")`,
					"{{manager}}",
				},
				{
					`sum by (manager) (increase(espalier_managedresource_drift_reports_total{$chosen}[5m])) or on() ` +
						`label_replace(vector(0), "manager", "none", "", "")`,
					"{{manager}}, not restored",
				},
			},
		},
		{
			lines, "Objects left to other sets",
			"How often a ManagedResource found an object in the hands of another one. **Not 0:** two sets contain the same " +
				"object. The Events `ObjectClaimed` name it; take it out of one of the two.",
			count, 8,
			[]query{{`sum(increase(espalier_managedresource_claims_lost_total{$chosen}[5m]))`, "left to another set"}},
		},
	}}
}

// quantiles returns the queries for the quantiles of a histogram.
func quantiles(metric string) []query {
	of := func(share, legend string) query {
		return query{`histogram_quantile(` + share + `, sum by (le) (rate(` + metric + `_bucket{$chosen}[5m])))`, legend}
	}
	return []query{of("0.5", "median"), of("0.9", "90 %"), of("0.99", "99 %")}
}

func managedResourceSpeed() row {
	return row{"Speed", []panel{
		{
			lines, "Time to apply a set",
			"From the beginning of a reconciliation that needed requests to the last answer. Gaps: nothing was applied. " +
				"**Long:** compare with *Requests by code* and *Requests by method*; an API server or a webhook is slow, or a " +
				"CustomResourceDefinition of the set is not served.",
			seconds, 8,
			quantiles("espalier_managedresource_apply_duration_seconds"),
		},
		{
			lines, "Time until a condition shows it",
			"From an event about an object to the status write that followed. Gaps: no condition changed. **Over a second:** " +
				"the source API server is slow, requests are limited (`qps`, `burst`), or all workers are busy; see *Busy " +
				"workers*.",
			seconds, 8,
			quantiles("espalier_managedresource_condition_latency_seconds"),
		},
		{
			lines, "Duration of reconciliations",
			"99 % of the reconciliations of a controller take no longer. Gaps: there were none. **Long:** see *Time to apply a " +
				"set* for what changes objects, else the process lacks CPU.",
			seconds, 8,
			[]query{
				{
					`histogram_quantile(0.99, sum by (controller, le) ` +
						`(rate(controller_runtime_reconcile_time_seconds_bucket{$chosen}[5m])))`,
					"{{controller}}",
				},
			},
		},
	}}
}

func managedResourceWork() row {
	return row{"Work", []panel{
		{
			lines, "Reconciliations",
			"Reconciliations by controller and result. At rest each set is compared once in a `syncPeriod`, without requests. " +
				"**Far more:** something changes sets, Secrets or objects all the time; see *Drift*.",
			operations, 8,
			[]query{
				{`sum by (controller, result) (rate(controller_runtime_reconcile_total{$chosen}[5m]))`, "{{controller}} {{result}}"},
			},
		},
		{
			lines, "Failed reconciliations",
			"Reconciliations that ended with an error, and panics. Each is tried again with back-off. **Not 0:** read the " +
				"conditions of the sets, then the log of the leader. A panic is a bug: report it with the log.",
			operations, 8,
			[]query{
				{`sum by (controller) (rate(controller_runtime_reconcile_errors_total{$chosen}[5m]))`, "{{controller}}"},
				{`sum by (controller) (rate(controller_runtime_reconcile_panics_total{$chosen}[5m]))`, "{{controller}} panics"},
			},
		},
		{
			lines, "Queue depth",
			"What waits for a worker. After a start or a change of many sets that is normal for a moment. **Does not fall:** " +
				"see *Busy workers*.",
			count, 8,
			[]query{{`sum by (name) (workqueue_depth{$chosen})`, "{{name}}"}},
		},
		{
			lines, "Time in the queue",
			"99 % wait no longer for a worker. Gaps: nothing waited. **Long:** see *Busy workers*.",
			seconds, 8,
			[]query{
				{`histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{$chosen}[5m])))`, "{{name}}"},
			},
		},
		{
			lines, "Busy workers",
			"Share of the workers of a controller that are at work. **100 % for long:** raise `concurrentSyncs` of that " +
				"controller, unless the API server is what takes the time.",
			ratio, 8,
			[]query{
				{
					`sum by (controller) (controller_runtime_active_workers{$chosen}) / sum by (controller) ` +
						`(controller_runtime_max_concurrent_reconciles{$chosen})`,
					"{{controller}}",
				},
			},
		},
		{
			lines, "Longest work at one object",
			"How long the worker that has been at it for longest has been at it. One reconciliation takes 3 minutes at most. " +
				"**More:** a worker hangs; take a profile (`debugging.enableProfiling`) or a SIGQUIT dump, restart the leader, and " +
				"report it.",
			seconds, 8,
			[]query{{`max by (name) (workqueue_longest_running_processor_seconds{$chosen})`, "{{name}}"}},
		},
	}}
}

func managedResourceRequests() row {
	return row{"API servers", []panel{
		{
			lines, "Requests by code",
			"Requests to the API servers by status code; `<error>` got no answer. **401:** the token has expired. **403:** a " +
				"right is missing. **409:** another client writes the same objects. **429:** the API server throttles. **5xx:** " +
				"look at the API server.",
			requests, 8,
			[]query{{`sum by (code) (rate(rest_client_requests_total{$chosen}[5m]))`, "{{code}}"}},
		},
		{
			lines, "Requests by method",
			"Requests to the API servers by server and method. At rest there are only those that renew the lease. **PUT, " +
				"PATCH, POST without changes of yours:** see *Drift*. **Many GET:** see *Unwatched objects*.",
			requests, 8,
			[]query{{`sum by (host, method) (rate(rest_client_requests_total{$chosen}[5m]))`, "{{method}} {{host}}"}},
		},
		{
			lines, "Requests spared",
			"Comparisons of an object with its desired state that needed no request. This is what polling would have cost; " +
				"nothing needs to be done. **Falls to 0 while there are sets:** no replica reconciles, see *Leaders*.",
			operations, 8,
			[]query{{`sum(rate(espalier_managedresource_requests_saved_total{$chosen}[5m]))`, "comparisons"}},
		},
		{
			lines, "Watches",
			"Watches on managed objects: one for each kind, or for each kind and namespace where only that is allowed, and one " +
				"for each object whose manifest says `ignore`. **Many thousands:** grant `list` and `watch` cluster-wide.",
			count, 8,
			[]query{{`sum by (instance) (espalier_managedresource_watches{$chosen})`, "{{instance}}"}},
		},
		{
			lines, "Unwatched objects",
			"Objects that no granted watch covers. They are read once in each `syncPeriod`, and drift is repaired only then. " +
				"**Not 0:** the log names the kinds; grant `list` and `watch` on them.",
			count, 8,
			[]query{{`sum by (instance) (espalier_managedresource_unwatched_objects{$chosen})`, "{{instance}}"}},
		},
	}}
}

func managedResourceGarbage() row {
	return row{"Garbage collector", []panel{
		{
			lines, "Collected by kind",
			"ConfigMaps and Secrets that the garbage collector deleted because nothing refers to them. Old versions go after a " +
				"change; 0 also if it is switched off or only reports. **Much at once:** find out which program dropped its " +
				"references; the Events of the collector name the objects.",
			count, 8,
			[]query{
				{
					`sum by (kind) (increase(espalier_managedresource_garbage_collected_total{$chosen}[5m])) or on() ` +
						`label_replace(vector(0), "kind", "none", "", "")`,
					"{{kind}}",
				},
			},
		},
		{
			lines, "Garbage found",
			"ConfigMaps and Secrets that the last look found to be unused. In report mode they stay, so this says what the " +
				"collector would delete; 0 also if it is switched off. **Stays without report mode:** deletions fail, see *Failed " +
				"reconciliations* and the log.",
			count, 8,
			[]query{
				{
					`sum by (kind) (espalier_managedresource_garbage_found{$chosen}) or on() label_replace(vector(0), "kind", ` +
						`"none", "", "")`,
					"{{kind}}",
				},
			},
		},
		{
			lines, "Since the last collection",
			"Time since the garbage collector last did all that it had to do. Empty if it is switched off, or before its first " +
				"success. **More than twice `controllers.garbageCollector.syncPeriod`:** it fails; the log of the leader says why.",
			seconds, 8,
			[]query{{`time() - max(espalier_managedresource_garbage_collection_last_success_timestamp_seconds{$chosen})`, "since"}},
		},
	}}
}

func managedResourceProcesses() row {
	return row{"Processes", []panel{
		{
			lines, "Memory",
			"Resident memory, and the part of it that is live heap. It grows with the number of managed objects and of Secrets " +
				"in the source, and then stays. **Grows for hours without more sets:** take a heap profile " +
				"(`debugging.enableProfiling`) and report it.",
			bytes, 8,
			[]query{
				{`process_resident_memory_bytes{$chosen}`, "{{instance}} resident"},
				{`go_memstats_heap_inuse_bytes{$chosen}`, "{{instance}} heap"},
			},
		},
		{
			lines, "CPU",
			"Seconds of CPU time per second. At rest next to nothing. **High at rest:** see *Reconciliations*; else take a CPU " +
				"profile (`debugging.enableProfiling`).",
			count, 8,
			[]query{{`rate(process_cpu_seconds_total{$chosen}[5m])`, "{{instance}}"}},
		},
		{
			lines, "Goroutines",
			"A few for each watch and each worker. **Grows while *Watches* does not:** a leak; take a goroutine profile " +
				"(`debugging.enableProfiling`) and report it.",
			count, 8,
			[]query{{`go_goroutines{$chosen}`, "{{instance}}"}},
		},
		{
			lines, "Leader by replica",
			"1 for the replica that leads. **Changes often:** the leader loses its lease, so the source API server is slow or " +
				"the process lacks CPU; see *Requests by code* and *CPU*.",
			count, 8,
			[]query{{`max by (instance, name) (leader_election_master_status{$chosen})`, "{{instance}} {{name}}"}},
		},
		{
			lines, "Uptime",
			"Time since the process has started. **Falls to 0 again and again:** it is killed or ends by itself; read the end " +
				"of the log of the process before (`kubectl logs --previous`).",
			seconds, 8,
			[]query{{`time() - process_start_time_seconds{$chosen}`, "{{instance}}"}},
		},
		{
			lines, "Secrets kept in mind",
			"Secrets of the source whose versions are kept: those that sets are read from. All others take no memory. **Far " +
				"more than the sets name:** report it, with the memory panel.",
			count, 8,
			[]query{{`sum by (instance) (espalier_managedresource_tracked_secrets{$chosen})`, "{{instance}}"}},
		},
		{
			lines, "Open files",
			"Open file descriptors, as a share of what the process may have. **Near 100 %:** raise the limit; connections fail " +
				"after that.",
			ratio, 8,
			[]query{{`process_open_fds{$chosen} / process_max_fds{$chosen}`, "{{instance}}"}},
		},
	}}
}
