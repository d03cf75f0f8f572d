{{- define "stagewatch.selector" -}}
app.kubernetes.io/name: stagewatch
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "stagewatch.labels" -}}
{{ include "stagewatch.selector" . }}
app.kubernetes.io/part-of: stagewatch
{{- end }}

{{- define "stagewatch.gpus.selector" -}}
app.kubernetes.io/name: stagewatch-gpus
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gpus
{{- end }}

{{- define "stagewatch.gpus.labels" -}}
{{ include "stagewatch.gpus.selector" . }}
app.kubernetes.io/part-of: stagewatch
{{- end }}

{{- define "stagewatch.chart" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "stagewatch.registry" -}}
{{- if .Values.image.registry }}{{ .Values.image.registry }}/{{ end }}
{{- end }}
