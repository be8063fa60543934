package manifest

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// typicalSet is a value of ten documents of the size that controllers write: one Deployment, the rest small.
func typicalSet() []byte {
	var set strings.Builder
	set.WriteString(`apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    reference.resources.gardener.cloud/configmap-4ed34879: test-5678
  creationTimestamp: null
  labels:
    app.kubernetes.io/name: web
  name: web
  namespace: shop
spec:
  replicas: 0
  revisionHistoryLimit: 2
  selector:
    matchLabels:
      app: web
  strategy: {}
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - args:
        - --port=8080
        - --verbose
        - "--log-format={json}"
        env:
        - name: NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: LEVEL
          value: "3"
        image: registry.example.com/web:1.2.3
        name: web
        ports:
        - containerPort: 8080
          name: http
          protocol: TCP
        resources:
          limits:
            memory: 100Mi
          requests:
            cpu: 10m
            memory: 50Mi
        volumeMounts:
        - mountPath: /etc/web
          name: config
      serviceAccountName: web
      volumes:
      - configMap:
          name: web
        name: config
status: {}
`)
	for i := range 9 {
		fmt.Fprintf(&set, "---\napiVersion: v1\ndata:\n  config.yaml: |\n    level: debug\n    listen: 0.0.0.0\n  mode: \"%d\"\nimmutable: "+
			"true\nkind: ConfigMap\nmetadata:\n  creationTimestamp: null\n  labels:\n    app: web\n  name: web-%d\n  namespace: shop\n", i, i)
	}
	return []byte(set.String())
}

func BenchmarkDecode(b *testing.B) {
	documents, err := Split("data.yaml", typicalSet(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours, ten documents", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, document := range documents {
				if _, err := document.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("sigs.k8s.io/yaml, ten documents", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, document := range documents {
				var object map[string]any
				if err := yaml.Unmarshal(document.Raw, &object); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
