// Package projecttest runs project-controller for tests. It uses a real API server that no other test package uses, the rights of the
// binary, and the shipped CRDs.
//
//	func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }
//
//	e := projecttest.New(t, projecttest.Options{Project: "{minimumLifetimeDays: 0}"})
//	p := e.Project("alpha")
//	e.Expect(e.Admin.Create(e.Ctx, p)).To(Succeed())
//	e.Eventually(func() corev1beta1.ProjectPhase { return e.Get(p).Status.Phase }, binary.Patience).Should(…)
//
// The controller acts on the whole cluster. So the tests of a package do not run in parallel, and at the end of a test its Projects are
// deleted. The API server runs without controllers. An Env takes the place of the namespace controller. It also does one task of the
// garbage collector: it releases namespaces that are deleted in the foreground.
package projecttest
