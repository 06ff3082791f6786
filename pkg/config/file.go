package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// loadFile reads one YAML file. Nested keys are joined by dots; unknown keys are refused with their line,
// because a misspelt setting that is silently ignored is found only when it is missed.
func (b *Binding) loadFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return b.loadNode(path, "", doc.Content[0])
}

func (b *Binding) loadNode(path, prefix string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: wants keys and values here", path, n.Line)
	}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := prefix + k.Value
		at := fmt.Sprintf("%s:%d", path, k.Line)
		f, secretFile := b.byKey[key], b.byKey[strings.TrimSuffix(key, "_file")]
		switch {
		case f != nil && v.Kind == yaml.ScalarNode:
			errs = append(errs, f.set(v.Value, FromFile, at))
		case f != nil && v.Kind == yaml.SequenceNode:
			var items []string
			for _, item := range v.Content {
				items = append(items, item.Value)
			}
			errs = append(errs, f.set(strings.Join(items, ","), FromFile, at))
		case secretFile != nil && secretFile.secret && v.Kind == yaml.ScalarNode:
			errs = append(errs, secretFile.setFromFile(v.Value, FromFile, at))
		case slices.Contains(b.accepted, key), slices.Contains(b.accepted, strings.TrimSuffix(key, "_file")):
		case v.Kind == yaml.MappingNode && b.isSection(key):
			errs = append(errs, b.loadNode(path, key+".", v))
		case slices.Contains(b.ignored, section(key)):
		default:
			errs = append(errs, fmt.Errorf("%s: unknown key %q%s", at, key, b.suggest(key)))
		}
	}
	return errors.Join(errs...)
}

func section(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

func (b *Binding) isSection(key string) bool {
	return slices.ContainsFunc(b.fields, func(f *field) bool { return strings.HasPrefix(f.key, key+".") }) ||
		slices.ContainsFunc(b.accepted, func(k string) bool { return strings.HasPrefix(k, key+".") })
}

// suggest names the known key that differs least, when one is near.
func (b *Binding) suggest(key string) string {
	best, at := "", 4
	for _, f := range b.fields {
		if d := distance(key, f.key); d < at {
			best, at = f.key, d
		}
	}
	if best == "" {
		return "; `calferry config show` lists the known ones"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}
