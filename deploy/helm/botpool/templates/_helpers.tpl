{{- define "botpool.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "botpool.labels" -}}
{{ include "botpool.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "botpool.selector" -}}
app.kubernetes.io/name: botpool
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: control-plane
{{- end }}

{{- define "botpool.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "botpool.name" .) }}
{{- end }}

{{- define "botpool.botNamespace" -}}
{{ .Values.botNamespace | default .Release.Namespace }}
{{- end }}

{{- define "botpool.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The settings of the values, with the defaults that only the chart knows. */ -}}
{{- define "botpool.settings" -}}
{{- $address := printf "http://%s.%s.svc:%v" (include "botpool.name" .) .Release.Namespace .Values.service.port -}}
{{- $own := dict
    "server" (dict "public_url" $address "port" 8700)
    "backends" (dict "kubernetes" (dict "namespace" (include "botpool.botNamespace" .)))
-}}
{{- mergeOverwrite $own .Values.settings | toYaml -}}
{{- end }}

{{- /* A value as TOML: JSON, except tables, which TOML writes with an equals sign. */ -}}
{{- define "botpool.tomlValue" -}}
{{- if kindIs "map" . -}}
{ {{ range $index, $key := keys . | sortAlpha }}{{ if $index }}, {{ end }}{{ $key | quote }} = {{ include "botpool.tomlValue" (get $ $key) }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{ range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "botpool.tomlValue" $item }}{{ end }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}

{{- /* A table as sections of a TOML file. The argument: the path of the table, and the table. */ -}}
{{- define "botpool.toml" -}}
{{- $path := .path -}}
{{- $table := .table -}}
{{- $keys := keys $table | sortAlpha -}}
{{- range $keys }}{{ $value := get $table . }}{{ if and (not (kindIs "map" $value)) (not (kindIs "invalid" $value)) }}
{{ . }} = {{ include "botpool.tomlValue" $value }}
{{- end }}{{ end }}
{{- range $keys }}{{ $value := get $table . }}{{ if kindIs "map" $value }}
{{- $inner := append $path . }}

[{{ join "." $inner }}]
{{- include "botpool.toml" (dict "path" $inner "table" $value) }}
{{- end }}{{ end }}
{{- end }}
