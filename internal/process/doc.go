// Package process contains the common parts of the mains of all binaries: the command line, the configuration file, the log, the
// connections to the source and target clusters, the manager with its probes, and a clean shutdown. It also contains the common parts of
// the controllers of all binaries: the options of their queues, a handler of events, and transforms of caches.
//
// A main calls this package; this package does not know the controllers. Nothing in this package exits the process: Main returns the exit
// code.
//
//	func main() { os.Exit(process.Main(run)) }
//
//	func run(ctx context.Context, args []string, out io.Writer) error {
//		return process.Run(ctx, args, out, program, config.ResourceManager,
//			process.Family[*config.ResourceManagerConfiguration]{Needs: fruit.Needs, Add: fruit.Add})
//	}
package process
