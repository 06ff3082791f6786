package cli

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// secretRefs are the endings that say where a value is kept that must not stand in a file.
var secretRefs = []string{"_file", "_env"}

// secretFields are what may be kept elsewhere.
var secretFields = []string{"url", "user", "password", "bearer", "header_value"}

// resolveSecrets replaces url_file, password_env and their like by what they name: the server must not read files or
// the environment for whoever asks it. A document that is not YAML passes as it is.
func (a *App) resolveSecrets(document string) (string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(document), &root); err != nil {
		return document, nil //nolint:nilerr // a GAS-ICS-Sync configuration, or something that the server refuses by name
	}
	found, err := a.resolveNode(&root)
	if err != nil || !found {
		return document, err
	}
	out, err := yaml.Marshal(&root)
	return string(out), err
}

func (a *App) resolveNode(n *yaml.Node) (found bool, err error) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && i+1 < len(n.Content) {
			field, where := secretRef(child.Value)
			if field == "" {
				continue
			}
			value := n.Content[i+1]
			secret, err := a.secretAt(where, value.Value)
			if err != nil {
				return false, fmt.Errorf("line %d: %s: %w", child.Line, child.Value, err)
			}
			child.Value = field
			value.SetString(secret)
			found = true
			continue
		}
		below, err := a.resolveNode(child)
		if err != nil {
			return false, err
		}
		found = found || below
	}
	return found, nil
}

// secretRef splits "url_file" into the field and where it is kept; other names give nothing.
func secretRef(name string) (field, where string) {
	for _, suffix := range secretRefs {
		for _, f := range secretFields {
			if name == f+suffix {
				return f, suffix
			}
		}
	}
	return "", ""
}

func (a *App) secretAt(where, name string) (string, error) {
	if where == "_env" {
		value, ok := a.LookupEnv(name)
		if !ok || value == "" {
			return "", fmt.Errorf("the environment has no %s", name)
		}
		return value, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}
