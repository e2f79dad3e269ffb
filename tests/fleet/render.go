// Renders a Helm chart as `helm template` does, for charts that use only Go's own template functions, toJson,
// replace, indent and .Files.Get.
//
//	usage: chart-render CHART NAMESPACE VALUES    the objects of the chart; VALUES is JSON and overrides values.yaml
//	       chart-render FILE                      the documents of a YAML file, or of - for standard input
//
// Prints JSON: a list of the documents. The templates run in text/template, the engine that Helm itself uses. A value that does
// not exist is an error here; Helm would render it as nothing.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"
)

func main() {
	var documents []interface{}
	var err error
	switch len(os.Args) {
	case 4:
		documents, err = render(os.Args[1], os.Args[2], os.Args[3])
	case 2:
		var text []byte
		if os.Args[1] == "-" {
			text, err = io.ReadAll(os.Stdin)
		} else {
			text, err = os.ReadFile(os.Args[1])
		}
		if err == nil {
			documents, err = parse(text)
		}
	default:
		err = fmt.Errorf("usage: chart-render CHART NAMESPACE VALUES | FILE | -")
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(documents)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(chart, namespace, overrides string) ([]interface{}, error) {
	about, err := object(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := object(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var given map[string]interface{}
	if err := json.Unmarshal([]byte(overrides), &given); err != nil {
		return nil, err
	}
	// Helm passes the fields of Chart.yaml with an upper-case letter.
	data := map[string]interface{}{
		"Values":  merge(values, given),
		"Release": map[string]interface{}{"Name": "plegctl", "Namespace": namespace, "Service": "Helm"},
		"Files":   files(chart),
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	functions := template.FuncMap{
		"toJson": func(value interface{}) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"replace": func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"indent": func(spaces int, text string) string {
			pad := strings.Repeat(" ", spaces)
			return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		},
	}
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(templates)
	documents := []interface{}{}
	for _, file := range templates {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		compiled, err := template.New(file).Option("missingkey=error").Funcs(functions).Parse(string(text))
		if err != nil {
			return nil, err
		}
		var rendered bytes.Buffer
		if err := compiled.Execute(&rendered, data); err != nil {
			return nil, err
		}
		// Helm prints NOTES.txt after an installation. It is not an object.
		if filepath.Ext(file) == ".txt" {
			continue
		}
		more, err := parse(rendered.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", file, err, rendered.String())
		}
		documents = append(documents, more...)
	}
	return documents, nil
}

// files is the folder of a chart, whose files a template reads.
type files string

// Get returns the text of a file. Helm returns nothing for a file that does not exist.
func (folder files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	return string(text), err
}

// object reads a YAML file with one map.
func object(file string) (map[string]interface{}, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(documents) == 1 {
		if fields, ok := documents[0].(map[string]interface{}); ok {
			return fields, nil
		}
	}
	return nil, fmt.Errorf("%s is not one map", file)
}

// parse reads the documents of a YAML stream with the types of JSON, as Helm and kubectl do. Empty documents are left out.
func parse(text []byte) ([]interface{}, error) {
	documents := []interface{}{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document interface{}
		if err := decoder.Decode(&document); err == io.EOF {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		if document == nil {
			continue
		}
		converted, err := json.Marshal(document)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(converted, &document); err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// merge overrides values as Helm does: maps are merged, everything else is replaced.
func merge(values, given map[string]interface{}) map[string]interface{} {
	for key, value := range given {
		inner, isMap := values[key].(map[string]interface{})
		more, isAlsoMap := value.(map[string]interface{})
		if isMap && isAlsoMap {
			value = merge(inner, more)
		}
		values[key] = value
	}
	return values
}
