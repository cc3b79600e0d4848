{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "sluice.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "sluice.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sluice.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{- define "sluice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "sluice.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sluice.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The environment variables that come from secrets. */}}
{{- define "sluice.secrets" -}}
{{- range $variable, $secret := dict "SLUICE_DATABASE_URL" .Values.database "SLUICE_VALKEY_URL" .Values.valkey "SLUICE_SECRET_KEY" .Values.secretKey }}
{{- if $secret.existingSecret }}
- name: {{ $variable }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.existingSecret }}
      key: {{ $secret.key }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether there can be more than one instance. */}}
{{- define "sluice.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) }}true{{ end }}
{{- end }}

{{- define "sluice.validate" -}}
{{- if include "sluice.several" . }}
{{- if not .Values.database.existingSecret }}
{{- fail "More than one instance needs PostgreSQL: set database.existingSecret." }}
{{- end }}
{{- if not .Values.valkey.existingSecret }}
{{- fail "More than one instance needs Valkey or Redis to share limits: set valkey.existingSecret." }}
{{- end }}
{{- with .Values.persistence }}
{{- if and .enabled (not .existingClaim) (not (has "ReadWriteMany" .accessModes)) }}
{{- fail "More than one instance cannot share a volume with the access mode ReadWriteOnce: set persistence.accessModes to [ReadWriteMany], or persistence.enabled to false." }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (not .Values.database.existingSecret) (not .Values.persistence.enabled) }}
{{- fail "Without PostgreSQL, the database is on the persistent volume: set persistence.enabled to true, or database.existingSecret." }}
{{- end }}
{{- end }}
