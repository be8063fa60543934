package main

// dashboards returns all dashboards.
func dashboards() []dashboard {
	return []dashboard{overview(), controlPlane(), etcds(), credentials(), managedResources(), webhooks(), clusters(), projects()}
}

func overview() dashboard {
	return dashboard{name: "espalier-garden-overview", title: "Garden overview", rows: []row{
		{"State", []panel{
			{number, "Since the last success", "**More than two hours:** EspalierGardenNotReconciled.", seconds, 6, []query{
				{`time() - max(espalier_garden_last_success_timestamp_seconds)`, "last success"},
			}},
			{
				number, "Paused",
				"**No data:** the Garden is not paused. **More than a day:** EspalierGardenPausedLong.",
				seconds, 6,
				[]query{
					{`time() - max(espalier_garden_paused_since_timestamp_seconds)`, "paused"},
				},
			},
			{number, "Last operation", "**Error:** GardenLastOperationInErrorState.", count, 6, []query{
				{`max by (operation, state) (espalier_garden_last_operation) == 1`, "{{operation}} {{state}}"},
			}},
			{number, "Failed probes", "**Not 0:** ApiServerDown and other alerts name what does not answer.", count, 6, []query{
				{`count(probe_success == 0) or vector(0)`, "failed"},
			}},
			{
				lines, "Conditions",
				"How long each condition has had its status. **False or Unknown:** GardenConditionStatusNotTrue.",
				seconds, 12,
				[]query{
					{`time() - max by (condition, status) (espalier_garden_condition_since_timestamp_seconds)`, "{{condition}} {{status}}"},
				},
			},
			{lines, "Firing alerts", "**Any but EspalierWatchdog:** the page about alerts says what to do.", count, 12, []query{
				{`count by (alertname, severity) (ALERTS{alertstate="firing"})`, "{{alertname}} {{severity}}"},
			}},
		}},
		{"Operations", []panel{
			{lines, "Tasks by state", "**Running for long:** the panel beside it names the task.", count, 8, []query{
				{`max by (state) (espalier_garden_tasks)`, "{{state}}"},
			}},
			{
				lines, "Unfinished tasks",
				"How long tasks have run, or have failed. **More than 15 minutes:** EspalierGardenTaskWaits.",
				seconds, 8,
				[]query{
					{`time() - max by (task, state) (espalier_garden_task_since_timestamp_seconds)`, "{{task}} {{state}}"},
				},
			},
			{lines, "Failures of tasks", "In an hour. **More than two:** EspalierGardenReconcileFails.", count, 8, []query{
				{`sum by (task) (increase(espalier_garden_task_failures_total[1h]))`, "{{task}}"},
			}},
			{lines, "Operations by outcome", "In an hour. **No success:** look at the failures.", count, 8, []query{
				{`sum by (operation, outcome) (increase(espalier_garden_reconciles_total[1h]))`, "{{operation}} {{outcome}}"},
			}},
			{lines, "Writes by kind", "In an hour. **In every hour:** EspalierGardenWritesRepeat.", count, 8, []query{
				{`sum by (kind) (increase(espalier_garden_writes_total[1h]))`, "{{kind}}"},
			}},
			{lines, "Checks that stop an upgrade", "**1:** EspalierGardenUpgradeBlocked.", count, 8, []query{
				{`max by (check) (espalier_garden_preflight_failing)`, "{{check}}"},
			}},
		}},
		binaries(),
	}}
}

func binaries() row {
	return row{"Binaries", []panel{
		{lines, "Replicas by version", "**Fewer than before:** EspalierBinaryAbsent.", count, 8, []query{
			{`sum by (namespace, binary, version) (espalier_build_info)`, "{{namespace}} {{binary}} {{version}}"},
		}},
		{lines, "Leaders", "**0:** EspalierNoLeader.", count, 8, []query{
			{`sum by (namespace, name) (leader_election_master_status)`, "{{namespace}} {{name}}"},
		}},
		{
			lines, "Faults of Prometheus",
			"**Not 0:** Prometheus lacks series, so that other panels and alerts show less. The series `healthcheck` names each fault.",
			count, 8,
			[]query{
				{`count(healthcheck{instance=""}) or vector(0)`, "faults"},
			},
		},
	}}
}

func controlPlane() dashboard {
	return dashboard{name: "espalier-control-plane", title: "Control plane of the garden", rows: []row{
		{"API servers", []panel{
			{lines, "Requests", "By server. **A jump:** a client repeats its requests.", requests, 8, []query{
				{`sum by (job) (rate(apiserver_request_total[5m]))`, "{{job}}"},
			}},
			{lines, "Failed requests", "Answers 429 and 5xx. **Not 0:** look at the log of the server.", requests, 8, []query{
				{`sum by (job, code) (rate(apiserver_request_total{code=~"429|5.."}[5m]))`, "{{job}} {{code}}"},
			}},
			{
				lines, "Duration",
				"99 of 100 requests are faster, watches aside. **More than a second:** look at etcd and at webhooks.",
				seconds, 8,
				[]query{
					{`histogram_quantile(0.99, sum by (job, le) (rate(apiserver_request_duration_seconds_bucket{verb!~"WATCH|CONNECT"}[5m])))`, "{{job}}"},
				},
			},
			{lines, "Requests in flight", "**At its limit:** requests get 429.", count, 8, []query{
				{`sum by (job, request_kind) (apiserver_current_inflight_requests)`, "{{job}} {{request_kind}}"},
			}},
			{
				lines, "Stored objects",
				"The ten most frequent resources. **One that grows:** find its client, before etcd is full.",
				count, 8,
				[]query{
					{`topk(10, max by (resource) (apiserver_storage_objects))`, "{{resource}}"},
				},
			},
			{lines, "Lost audit events", "**More than 2 %:** TooManyAuditlogFailures.", ratio, 8, []query{
				{`sum by (job) (rate(apiserver_audit_error_total[5m])) / sum by (job) (rate(apiserver_audit_event_total[5m]))`, "{{job}}"},
			}},
		}},
		{"Programs", []panel{
			{
				lines, "Queues",
				"Objects that wait for a worker. **More and more:** the controller is too slow, or its API server is.",
				count, 12,
				[]query{
					{`sum by (job, name) (workqueue_depth) > 0`, "{{job}} {{name}}"},
				},
			},
			{lines, "Restarts", "In an hour. **More than five:** PodFrequentlyRestarting.", count, 12, []query{
				{
					`sum by (namespace, pod, container) (increase(kube_pod_container_status_restarts_total[1h])) > 0`,
					"{{namespace}}/{{pod}} {{container}}",
				},
			}},
			{lines, "Processor time", "The ten Pods that use most, in cores. **Much more than before:** look at its requests.", count, 12, []query{
				{
					`topk(10, sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}[5m])))`, "{{namespace}}/{{pod}}",
				},
			}},
			{lines, "Memory", "The ten Pods that use most. **One that grows for days:** it leaks, or its cache does.", bytes, 12, []query{
				{`topk(10, sum by (namespace, pod) (container_memory_working_set_bytes{container!=""}))`, "{{namespace}}/{{pod}}"},
			}},
		}},
	}}
}

func etcds() dashboard {
	const backupAge = `time() - max by (role, kind) (etcdbr_snapshot_latest_timestamp)`
	return dashboard{name: "espalier-etcd", title: "Etcds of the garden", rows: []row{
		{"Size", []panel{
			{lines, "Share of the quota", "**75 %, 90 %:** EtcdDbSizeLimitApproaching, EtcdDbSizeLimitCrossed.", ratio, 8, []query{
				{`max by (role) (etcd_mvcc_db_total_size_in_bytes / etcd_server_quota_backend_bytes)`, "{{role}}"},
			}},
			{lines, "Size", "**Much more than is in use:** EspalierEtcdFragmented.", bytes, 8, []query{
				{`max by (role) (etcd_mvcc_db_total_size_in_bytes)`, "{{role}}"},
				{`max by (role) (etcd_mvcc_db_total_size_in_use_in_bytes)`, "{{role}}, in use"},
			}},
			{
				lines, "Age of backups",
				"**Incremental and full older than 30 minutes, or full older than 26 hours:** EtcdDeltaBackupFailed, EtcdFullBackupFailed.",
				seconds, 8,
				[]query{
					{backupAge, "{{role}} {{kind}}"},
				},
			},
		}},
		{"Backups", []panel{
			{
				lines, "Duration of snapshots",
				"**Near the period of incremental snapshots, or of minutes:** the store of backups is slow.",
				seconds, 24,
				[]query{
					{
						`sum by (role, kind) (rate(etcdbr_snapshot_duration_seconds_sum{succeeded="true"}[1h])) / ` +
							`sum by (role, kind) (rate(etcdbr_snapshot_duration_seconds_count{succeeded="true"}[1h]))`,
						"{{role}} {{kind}}",
					},
				},
			},
		}},
		restoreDrills(),
		{"Members", []panel{
			{lines, "Members with a leader", "**0:** EtcdMainNoLeader, EtcdEventsNoLeader.", count, 8, []query{
				{`sum by (role) (etcd_server_has_leader)`, "{{role}}"},
			}},
			{lines, "Changes of the leader", "In an hour. **Several:** slow disks, or a bad network.", count, 8, []query{
				{`sum by (role) (increase(etcd_server_leader_changes_seen_total[1h]))`, "{{role}}"},
			}},
			{
				lines, "Writes to disk",
				"99 of 100 are faster. **Log more than 10 ms, commit more than 25 ms:** the disk is slow.",
				seconds, 8,
				[]query{
					{`histogram_quantile(0.99, sum by (role, le) (rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m])))`, "{{role}} log"},
					{`histogram_quantile(0.99, sum by (role, le) (rate(etcd_disk_backend_commit_duration_seconds_bucket[5m])))`, "{{role}} commit"},
				},
			},
		}},
	}}
}

func restoreDrills() row {
	return row{"Restore drills", []panel{
		{
			lines, "Age of the last drill's file and data",
			"**More than two intervals of backups:** EspalierGardenBackupNotRestorable.",
			seconds, 8,
			[]query{
				{`time() - max(espalier_garden_restore_drill_backup_timestamp_seconds > 0)`, "file"},
				{`time() - max(espalier_garden_restore_drill_data_timestamp_seconds > 0)`, "restored data"},
			},
		},
		{
			lines, "Duration of the restoration",
			"How long a restoration after a loss takes at least. **Much more than before:** the data in etcd has grown.",
			seconds, 8,
			[]query{{`max(espalier_garden_restore_drill_data_duration_seconds)`, "seconds"}},
		},
		{lines, "Restored objects", "**Fewer than are stored:** objects are missing in the snapshot.", count, 8, []query{
			{`max(espalier_garden_restore_drill_data_objects)`, "objects"},
			{`max(espalier_garden_restore_drill_data_secrets)`, "decrypted Secrets"},
			{`max(espalier_garden_restore_drill_data_failed)`, "failed"},
		}},
	}}
}

func credentials() dashboard {
	return dashboard{name: "espalier-credentials", title: "Credentials and rotations", rows: []row{
		{"Ends", []panel{
			{lines, "Authorities", "Time that is left. **Less than half a year:** EspalierGardenAuthorityExpires.", seconds, 12, []query{
				{`min by (secret) (espalier_garden_certificate_expiry_seconds{part="authority"}) - time()`, "{{secret}}"},
			}},
			{lines, "Certificates", "Time that is left. **Less than nine days:** EspalierGardenCertificateExpires.", seconds, 12, []query{
				{`min by (secret) (espalier_garden_certificate_expiry_seconds{part="certificate"}) - time()`, "{{secret}}"},
			}},
			{
				lines, "Ages of credentials",
				"**More than half a year, of a key or a password:** EspalierGardenCredentialOld.",
				seconds, 24,
				[]query{
					{`time() - max by (secret) (espalier_garden_credential_issued_seconds)`, "{{secret}}"},
				},
			},
		}},
		{"Rotations", []panel{
			{lines, "Phases", "How long each rotation has been in its phase. **Prepared for longer than configured, " +
				"Preparing or Completing for two hours:** EspalierGardenRotationOverdue, EspalierGardenRotationStuck.", seconds, 24, []query{
				{`time() - max by (credential, phase) (espalier_garden_rotation_phase_since_timestamp_seconds)`, "{{credential}} {{phase}}"},
			}},
		}},
	}}
}

func webhooks() dashboard {
	return dashboard{name: "espalier-webhooks", title: "Webhooks", rows: []row{
		{"Servers", []panel{
			{
				lines, "Requests by outcome",
				"**errored:** EspalierWebhookFails. **denied, most of all:** EspalierWebhookDenies.",
				requests, 12,
				[]query{
					{`sum by (job, outcome) (rate(espalier_webhook_requests_total[5m]))`, "{{job}} {{outcome}}"},
				},
			},
			{lines, "Denials and errors by handler", "**Not 0:** the log names user and object.", requests, 12, []query{
				{`sum by (handler, outcome) (rate(espalier_webhook_requests_total{outcome=~"denied|errored"}[5m]))`, "{{handler}} {{outcome}}"},
			}},
			{
				lines, "Duration by handler",
				"Half, and 99 of 100, are faster. **More than a second:** EspalierWebhookSlow.",
				seconds, 12,
				[]query{
					{`histogram_quantile(0.5, sum by (handler, le) (rate(espalier_webhook_request_duration_seconds_bucket[5m])))`, "{{handler}} 50 %"},
					{`histogram_quantile(0.99, sum by (handler, le) (rate(espalier_webhook_request_duration_seconds_bucket[5m])))`, "{{handler}} 99 %"},
				},
			},
			{lines, "Certificates", "Time that is left. **Less than 18 days:** EspalierWebhookCertificateExpires.", seconds, 12, []query{
				{`min by (job, part) (espalier_webhook_certificate_expiry_seconds) - time()`, "{{job}} {{part}}"},
			}},
		}},
		{"As the API server sees them", []panel{
			{lines, "Requests without an answer", "**Not 0:** EspalierAdmissionUnreachable.", requests, 24, []query{
				{`sum by (name) (rate(apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error"}[5m]))`, "{{name}}, refused"},
				{`sum by (name) (rate(apiserver_admission_webhook_fail_open_count[5m]))`, "{{name}}, passed"},
			}},
		}},
	}}
}

func clusters() dashboard {
	return dashboard{name: "espalier-clusters", title: "Tokens, CSRs, NetworkPolicies, nodes", rows: []row{
		{"Tokens and certificates", []panel{
			{lines, "Secrets that fail", "**Not 0:** EspalierTokenRenewalFails.", count, 8, []query{
				{`max by (namespace, job) (espalier_token_failing_secrets)`, "{{namespace}} {{job}}"},
			}},
			{lines, "First end of a token", "**Less than an hour, while Secrets fail:** EspalierTokenRenewalFails.", seconds, 8, []query{
				{`min by (namespace, job) (espalier_token_until_first_expiry_seconds)`, "{{namespace}} {{job}}"},
			}},
			{
				lines, "Requests of kubelets",
				"In an hour. **denied, or postponed again and again:** EspalierCSRDenied, EspalierCSRPostponed.",
				count, 8,
				[]query{
					{`sum by (decision, reason) (increase(espalier_csr_decisions_total[1h])) > 0`, "{{decision}} {{reason}}"},
					{`sum by (reason) (increase(espalier_csr_postponed_total[1h])) > 0`, "postponed {{reason}}"},
				},
			},
		}},
		{"NetworkPolicies and nodes", []panel{
			{lines, "Services at fault", "**Not 0:** EspalierNetworkPolicyRefused, EspalierNetworkPolicyChangeFails.", count, 8, []query{
				{`max by (reason) (espalier_networkpolicy_services_at_fault)`, "{{reason}}"},
			}},
			{
				lines, "Writes of policies",
				"In an hour. **Without a change of Services:** another client changes policies.",
				count, 8,
				[]query{
					{`sum by (action) (increase(espalier_networkpolicy_writes_total[1h]))`, "{{action}}"},
				},
			},
			{lines, "Nodes that are held back", "**For 15 minutes:** EspalierNodeNotReleased.", count, 8, []query{
				{`max by (cause) (espalier_node_held_back)`, "{{cause}}"},
			}},
		}},
	}}
}

func projects() dashboard {
	return dashboard{name: "espalier-projects", title: "Projects", rows: []row{
		{"Projects", []panel{
			{lines, "Projects by phase", "**Failed, or Terminating for a week:** ProjectStuckInDeletion.", count, 12, []query{
				{`max by (phase) (espalier_project_projects)`, "{{phase}}"},
			}},
			{lines, "Failures by step", "In an hour. **In each half hour:** EspalierProjectReconcileFails.", count, 12, []query{
				{`sum by (step) (increase(espalier_project_reconcile_failures_total[1h]))`, "{{step}}"},
			}},
		}},
		{"Disuse", []panel{
			{
				lines, "Stale Projects",
				"**A jump:** EspalierProjectsManyStale. **Undecided:** EspalierProjectsUndecided.",
				count, 12,
				[]query{
					{`max(espalier_project_stale)`, "stale"},
					{`max(espalier_project_undecided)`, "undecided"},
				},
			},
			{
				number, "Days to the first deletion",
				"**Less than seven:** EspalierProjectDeletionNear. **No data:** no Project has a date.",
				count, 6,
				[]query{
					{`min(espalier_project_days_to_deletion)`, "days"},
				},
			},
			{
				number, "Deletions that were only rehearsed",
				"**Not 0:** with `staleDeletion: Delete` these Projects would be gone.",
				count, 6,
				[]query{
					{`sum(espalier_project_would_delete_total)`, "Projects"},
				},
			},
		}},
	}}
}
