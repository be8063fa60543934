// Package webhook holds nothing itself; its folders hold the admission of Projects, one package for each concern:
//
//   - normalization fills in defaults and folds roles, as normalform says, on every write,
//   - ownership records who creates a project and makes the owner a member,
//   - validation refuses what the schema of the CRD cannot,
//   - namespaceuse keeps two projects from one namespace,
//   - permission asks for the verbs that changes of members, owner and tolerations need,
//   - creatorlimit limits how many projects one user creates,
//   - confirmation keeps projects from being deleted by mistake,
//   - namespacedeletion keeps the namespaces of projects from being deleted by hand.
//
// Each is a webhook of its own, so that who registers fewer switches the others off. They judge, or change what is about to
// be stored, and write nothing themselves. What does not belong here: rules that the schema can hold (they stand beside the
// types), where the server listens and its certificate (the package project), who is called about what (registrations), and
// everything that happens after a Project is stored.
package webhook
