package throwaway

// Functions that golden files test.
var (
	ETCDObjects   = etcdObjects
	ServerObjects = serverObjects
)
