package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// EspalierNode tunes node-controller.
type EspalierNode struct{}

func defaultEspalierNode(_ *EspalierNode) {}

func validateEspalierNode(_ EspalierNode, _ *field.Path) field.ErrorList { return nil }
