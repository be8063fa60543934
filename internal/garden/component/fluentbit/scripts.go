package fluentbit

// The keys of the ConfigMap with the scripts.
const (
	systemdScript  = "add_time_and_systemd_attr.lua"
	tagScript      = "add_tag_to_record.lua"
	severityScript = "modify_severity.lua"
)

// luaScripts returns the scripts, by their names. For the collector, the scripts add the fields by which the stores of logs group lines.
func luaScripts(collector bool) map[string]string {
	tag := addTag
	if collector {
		tag = addTagAndSource
	}
	return map[string]string{systemdScript: describeUnit, tagScript: tag, severityScript: normalizeSeverity}
}

const addTag = `function add_tag_to_record(tag, timestamp, record)
  record["tag"] = tag
  return 1, timestamp, record
end
`

// addTagAndSource adds the names of the Pod, its namespace and its container to a record. It takes them from the tag, which is the path of
// the log file of the container. It also adds the name of the node, and the origin garden.
const addTagAndSource = `function add_tag_to_record(tag, timestamp, record)
  local pod, namespace, container = string.match(tag, "^kubernetes%.var%.log%.containers%.([^_]+)_([^_]+)_(.+)%-%x+%.log$")
  record["origin"] = "garden"
  record["k8s.node.name"] = os.getenv("NODE_NAME")
  record["host.name"] = os.getenv("NODE_NAME")
  record["k8s.namespace.name"] = namespace
  record["k8s.pod.name"] = pod
  record["k8s.container.name"] = container
  return 1, timestamp, record
end
`

// describeUnit keeps the fields of a record of the journal that users search for. The tag is systemd.<unit>.
const describeUnit = `local severities = {
  ["0"] = "FATAL", ["1"] = "FATAL", ["2"] = "FATAL", ["3"] = "ERR", ["4"] = "WARN", ["5"] = "NOTICE", ["6"] = "INFO", ["7"] = "DBG",
}

function add_time_and_systemd_attr(tag, timestamp, record)
  local node = os.getenv("NODE_NAME")
  return 1, timestamp, {
    ["log"] = record["MESSAGE"],
    ["severity"] = severities[tostring(record["PRIORITY"])],
    ["unit"] = string.match(tag, "^systemd%.(.+)$"),
    ["hostname"] = node,
    ["host.name"] = node,
    ["k8s.node.name"] = node,
    ["origin"] = "seed-journald",
  }
end
`

const normalizeSeverity = `local severities = {
  I = "INFO", INF = "INFO", INFO = "INFO",
  W = "WARN", WRN = "WARN", WARN = "WARN", WARNING = "WARN",
  E = "ERR", ERR = "ERR", ERROR = "ERR", EROR = "ERR",
  D = "DBG", DBG = "DBG", DEBUG = "DBG",
  N = "NOTICE", NOTICE = "NOTICE",
  F = "FATAL", FATAL = "FATAL",
}

function cb_modify(tag, timestamp, record)
  local severity = record["severity"]
  if type(severity) ~= "string" then
    return 0, timestamp, record
  end
  local normal = severities[string.upper(string.match(severity, "^%s*(.-)%s*$"))]
  if normal == nil then
    return 0, timestamp, record
  end
  record["severity"] = normal
  return 1, timestamp, record
end
`
