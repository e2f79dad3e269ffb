
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'plegctl' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'plegctl'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'plegctl' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('health', 'health', [CompletionResultType]::ParameterValue, 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first')
            [CompletionResult]::new('relist', 'relist', [CompletionResultType]::ParameterValue, 'One relist: every pod and container as the kubelet would see them now, each call timed')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'The kubelet''s PLEG, live: every event it would have seen, every relist timed')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'What the kubelet''s PLEG would have emitted between two relists, and what it would not have noticed')
            [CompletionResult]::new('nodes', 'nodes', [CompletionResultType]::ParameterValue, 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost')
            [CompletionResult]::new('record', 'record', [CompletionResultType]::ParameterValue, 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards')
            [CompletionResult]::new('capture', 'capture', [CompletionResultType]::ParameterValue, 'What the flight recorder kept: list it, check it, cut a part out of it, report on it')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'What a finding''s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list')
            [CompletionResult]::new('stacks', 'stacks', [CompletionResultType]::ParameterValue, 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump')
            [CompletionResult]::new('static-pods', 'static-pods', [CompletionResultType]::ParameterValue, 'Static pods: what the kubelet of this node runs from files')
            [CompletionResult]::new('pods', 'pods', [CompletionResultType]::ParameterValue, 'What the kubelet is told to run, from every source, and what became of it')
            [CompletionResult]::new('sim', 'sim', [CompletionResultType]::ParameterValue, 'Simulated runtimes: what there is, what each teaches, and one on a real socket')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page for every command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;health' {
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Time for everything [default: 30s; 2m with --deep; 4s with --npd]')
            [CompletionResult]::new('--patience', '--patience', [CompletionResultType]::ParameterName, 'How long a call that does not answer is waited for: hung is likely after 5s and certain after 10s')
            [CompletionResult]::new('--kubelet-healthz', '--kubelet-healthz', [CompletionResultType]::ParameterName, 'The kubelet''s health check; only plain http')
            [CompletionResult]::new('--kubelet-metrics', '--kubelet-metrics', [CompletionResultType]::ParameterName, 'The kubelet''s metrics: an http URL, a file, or `-` for stdin')
            [CompletionResult]::new('--kubelet-version', '--kubelet-version', [CompletionResultType]::ParameterName, 'Release of the kubelet whose relist is estimated [default: what the running kubelet''s metrics say, else the newest known]')
            [CompletionResult]::new('--runtime-request-timeout', '--runtime-request-timeout', [CompletionResultType]::ParameterName, 'The kubelet''s time-out of one call [default: the running kubelet''s, else 2m]')
            [CompletionResult]::new('--threshold', '--threshold', [CompletionResultType]::ParameterName, 'Age from which on PLEG is not healthy [default: 3m]')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Write the report as JSON to this file, besides what is printed')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Show a saved report instead of making one')
            [CompletionResult]::new('--stacks', '--stacks', [CompletionResultType]::ParameterName, 'Where a goroutine dump comes from when something is silent: `auto` (what the runtime gives without a signal), `never`, a file or `unix://SOCKET`')
            [CompletionResult]::new('--proc', '--proc', [CompletionResultType]::ParameterName, 'The node''s process table [default: /proc]')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Remember here what hung, so that the next run asks for that alone; with --npd what is likely counts from the second run on, and what is well again from the second on')
            [CompletionResult]::new('--fail-on', '--fail-on', [CompletionResultType]::ParameterName, 'Which findings make the exit status 1')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--deep', '--deep', [CompletionResultType]::ParameterName, 'Take second samples everywhere')
            [CompletionResult]::new('--probe-shims', '--probe-shims', [CompletionResultType]::ParameterName, 'Ask `ContainerStats` of every running container too: the only read that shows a shim which no longer answers')
            [CompletionResult]::new('--npd', '--npd', [CompletionResultType]::ParameterName, 'One line of at most 80 bytes, for node-problem-detector')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;relist' {
            [CompletionResult]::new('--inspect', '--inspect', [CompletionResultType]::ParameterName, 'Whether to make the kubelet''s status calls too, for every pod')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'How many pods to ask about at once')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Write the whole report as JSON to this file, besides what is printed')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Show only pods of this namespace')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Show only pods of this namespace')
            [CompletionResult]::new('--pod', '--pod', [CompletionResultType]::ParameterName, 'Show only the pod with this name or UID')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Show only containers in this state')
            [CompletionResult]::new('--sort-by', '--sort-by', [CompletionResultType]::ParameterName, 'Order of the rows [default: the kubelet''s]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--serial', '--serial', [CompletionResultType]::ParameterName, 'Ask about one pod after the other, as the kubelet does')
            [CompletionResult]::new('--stream-lists', '--stream-lists', [CompletionResultType]::ParameterName, 'List through the runtime''s streaming RPCs (CRI 1.36) instead of the kubelet''s default ones')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;watch' {
            [CompletionResult]::new('--mode', '--mode', [CompletionResultType]::ParameterName, 'Whether to relist, to read the runtime''s events as the kubelet''s evented PLEG does, or both to compare them')
            [CompletionResult]::new('--period', '--period', [CompletionResultType]::ParameterName, 'Pause between the end of a relist and the start of the next [default: 1s; 300s in evented mode]')
            [CompletionResult]::new('--threshold', '--threshold', [CompletionResultType]::ParameterName, 'Age from which on PLEG is not healthy [default: 3m; 10m in evented mode]')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'End after this many relists, failed ones included')
            [CompletionResult]::new('--for', '--for', [CompletionResultType]::ParameterName, 'End after this time')
            [CompletionResult]::new('--until-slow', '--until-slow', [CompletionResultType]::ParameterName, 'End with exit status 1 as soon as a relist, or one call of it, takes longer than this')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Append the JSON lines to this file too')
            [CompletionResult]::new('--retries', '--retries', [CompletionResultType]::ParameterName, 'Give the event stream up after it has ended this many times')
            [CompletionResult]::new('--max-stream', '--max-stream', [CompletionResultType]::ParameterName, 'Close the event stream after this time and open it again, which is no failure')
            [CompletionResult]::new('--metrics-listen', '--metrics-listen', [CompletionResultType]::ParameterName, 'Serve the kubelet''s PLEG metrics over HTTP on this address, at `/metrics`')
            [CompletionResult]::new('--kubelet-version', '--kubelet-version', [CompletionResultType]::ParameterName, 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: the newest known]')
            [CompletionResult]::new('--speed', '--speed', [CompletionResultType]::ParameterName, 'How fast a capture is played: so many times as fast as it was, or `max`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--until-unhealthy', '--until-unhealthy', [CompletionResultType]::ParameterName, 'End with exit status 1 as soon as PLEG is not healthy')
            [CompletionResult]::new('--diagnose', '--diagnose', [CompletionResultType]::ParameterName, 'Say in one line what holds PLEG up, while a call is silent for 5s or a relist takes more than 10s')
            [CompletionResult]::new('--initial', '--initial', [CompletionResultType]::ParameterName, 'Show the events of the first relist in the table too')
            [CompletionResult]::new('--no-inspect', '--no-inspect', [CompletionResultType]::ParameterName, 'Leave out the status calls that the kubelet makes for changed pods')
            [CompletionResult]::new('--steal-events', '--steal-events', [CompletionResultType]::ParameterName, 'Read the event stream even where that takes events away from the kubelet')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;diff' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Compare reports of two different nodes')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;nodes' {
            [CompletionResult]::new('--kubeconfig', '--kubeconfig', [CompletionResultType]::ParameterName, 'The kubeconfig [default: `$KUBECONFIG`, ~/.kube/config, the pod''s own account]')
            [CompletionResult]::new('--context', '--context', [CompletionResultType]::ParameterName, 'A context of the kubeconfig [default: its current one]')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Only nodes with these labels, as kubectl takes them')
            [CompletionResult]::new('--selector', '--selector', [CompletionResultType]::ParameterName, 'Only nodes with these labels, as kubectl takes them')
            [CompletionResult]::new('--concurrency', '--concurrency', [CompletionResultType]::ParameterName, 'Nodes that are asked at a time')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Pause between two looks with --watch')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'Look again and again until Ctrl-C; from the second look on relists are those since the one before')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Look again and again until Ctrl-C; from the second look on relists are those since the one before')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;record' {
            [CompletionResult]::new('--max-size', '--max-size', [CompletionResultType]::ParameterName, 'Never take more than this on the disk, pinned incidents included')
            [CompletionResult]::new('--max-age', '--max-age', [CompletionResultType]::ParameterName, 'Give up what is older than this and belongs to no incident')
            [CompletionResult]::new('--period', '--period', [CompletionResultType]::ParameterName, 'Pause between the end of a relist and the start of the next')
            [CompletionResult]::new('--slow', '--slow', [CompletionResultType]::ParameterName, 'A call or a relist beyond this opens an incident, as one that fails does')
            [CompletionResult]::new('--threshold', '--threshold', [CompletionResultType]::ParameterName, 'Age of the last relist from which on PLEG is not healthy')
            [CompletionResult]::new('--before', '--before', [CompletionResultType]::ParameterName, 'How much before an incident is pinned')
            [CompletionResult]::new('--after', '--after', [CompletionResultType]::ParameterName, 'How much after an incident is pinned')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'How many incidents are pinned')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'End after this many relists, failed ones included')
            [CompletionResult]::new('--for', '--for', [CompletionResultType]::ParameterName, 'End after this time')
            [CompletionResult]::new('--kubelet-version', '--kubelet-version', [CompletionResultType]::ParameterName, 'Follow the algorithm of this kubelet release, `1.30` or `v1.29.3-eks-…` [default: this node''s, else the newest known]')
            [CompletionResult]::new('--metrics-listen', '--metrics-listen', [CompletionResultType]::ParameterName, 'Serve the kubelet''s PLEG metrics and the recorder''s own over HTTP on this address, at `/metrics`')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--no-host', '--no-host', [CompletionResultType]::ParameterName, 'Leave out pressure and processes of the node')
            [CompletionResult]::new('--no-diagnose', '--no-diagnose', [CompletionResultType]::ParameterName, 'Leave out the diagnosis that is made while an incident lasts')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;capture' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Say what is in a capture: from when to when, and which incidents')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write a part of a capture to one file, which is a capture like any other')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Tell the story: relist latency, age against the threshold, incidents, who did what')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Read every entry and every answer, and say what is gone; exit status 1 if anything is')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;capture;ls' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;capture;export' {
            [CompletionResult]::new('--incident', '--incident', [CompletionResultType]::ParameterName, 'Only what was pinned for this incident')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Nothing before: RFC 3339, `HH:MM:SS`, or `+90s` from the start')
            [CompletionResult]::new('--to', '--to', [CompletionResultType]::ParameterName, 'Nothing after')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--anonymise', '--anonymise', [CompletionResultType]::ParameterName, 'Replace every name: pods, namespaces, containers, images, labels, addresses, the node')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;capture;report' {
            [CompletionResult]::new('--incident', '--incident', [CompletionResultType]::ParameterName, 'Only what was pinned for this incident')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;capture;check' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;capture;help' {
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Say what is in a capture: from when to when, and which incidents')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write a part of a capture to one file, which is a capture like any other')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Tell the story: relist latency, age against the threshold, incidents, who did what')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Read every entry and every answer, and say what is gone; exit status 1 if anything is')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;capture;help;ls' {
            break
        }
        'plegctl;capture;help;export' {
            break
        }
        'plegctl;capture;help;report' {
            break
        }
        'plegctl;capture;help;check' {
            break
        }
        'plegctl;capture;help;help' {
            break
        }
        'plegctl;explain' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;stacks' {
            [CompletionResult]::new('--signatures', '--signatures', [CompletionResultType]::ParameterName, 'More signatures, in a file: see docs/stacks.md')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--live', '--live', [CompletionResultType]::ParameterName, 'Take names, children and files from the process itself, though the dump does not say that it is of this node')
            [CompletionResult]::new('--no-live', '--no-live', [CompletionResultType]::ParameterName, 'Take nothing from a process, only from the dump')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;static-pods' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('lint', 'lint', [CompletionResultType]::ParameterValue, 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;static-pods;lint' {
            [CompletionResult]::new('--node-name', '--node-name', [CompletionResultType]::ParameterName, 'Name of the node, which every static pod gets as a suffix [default: this node''s]')
            [CompletionResult]::new('--kubelet-version', '--kubelet-version', [CompletionResultType]::ParameterName, 'Release of the kubelet whose rules count, such as 1.31 [default: the newest known]')
            [CompletionResult]::new('--as', '--as', [CompletionResultType]::ParameterName, 'The directory under which the kubelet reads the files, where it is not PATH itself; pods'' UIDs depend on it')
            [CompletionResult]::new('--upgrade-to', '--upgrade-to', [CompletionResultType]::ParameterName, 'Say too what an upgrade to this release restarts and refuses, such as 1.36')
            [CompletionResult]::new('--fail-on', '--fail-on', [CompletionResultType]::ParameterName, 'What makes the exit status 1')
            [CompletionResult]::new('--ignore', '--ignore', [CompletionResultType]::ParameterName, 'Leave out this check, such as SP053; may be given more than once')
            [CompletionResult]::new('--output-file', '--output-file', [CompletionResultType]::ParameterName, 'Write this format to a file too, such as sarif=lint.sarif; may be given more than once')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--no-cri', '--no-cri', [CompletionResultType]::ParameterName, 'Do not compare with what the runtime runs')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;static-pods;help' {
            [CompletionResult]::new('lint', 'lint', [CompletionResultType]::ParameterValue, 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;static-pods;help;lint' {
            break
        }
        'plegctl;static-pods;help;help' {
            break
        }
        'plegctl;pods' {
            [CompletionResult]::new('--manifests', '--manifests', [CompletionResultType]::ParameterName, 'A directory or a file of manifests; sources that are given are the only ones [default: the running kubelet''s]')
            [CompletionResult]::new('--manifest-url', '--manifest-url', [CompletionResultType]::ParameterName, 'A URL that serves a manifest or a list of them')
            [CompletionResult]::new('--manifest-url-header', '--manifest-url-header', [CompletionResultType]::ParameterName, 'A header to send there, as KEY:VALUE; may be given more than once')
            [CompletionResult]::new('--api-pods', '--api-pods', [CompletionResultType]::ParameterName, 'The API server''s pods of this node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints them; `-` for stdin, where each document is the whole state')
            [CompletionResult]::new('--node-name', '--node-name', [CompletionResultType]::ParameterName, 'Name of the node [default: this node''s]')
            [CompletionResult]::new('--kubelet-version', '--kubelet-version', [CompletionResultType]::ParameterName, 'Release of the kubelet whose rules and UIDs count, such as 1.31 [default: the newest known]')
            [CompletionResult]::new('--file-check-frequency', '--file-check-frequency', [CompletionResultType]::ParameterName, 'How often the manifests are read again, besides what inotify tells')
            [CompletionResult]::new('--http-check-frequency', '--http-check-frequency', [CompletionResultType]::ParameterName, 'How often the URL is asked')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Show only pods of this namespace')
            [CompletionResult]::new('--namespace', '--namespace', [CompletionResultType]::ParameterName, 'Show only pods of this namespace')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to print')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('--no-cri', '--no-cri', [CompletionResultType]::ParameterName, 'Do not ask the runtime')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'Follow: each update as the kubelet''s sync loop gets it, then what the runtime makes of it')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Follow: each update as the kubelet''s sync loop gets it, then what the runtime makes of it')
            [CompletionResult]::new('-A', '-A ', [CompletionResultType]::ParameterName, 'Show the pods of all namespaces, as is the default')
            [CompletionResult]::new('--all-namespaces', '--all-namespaces', [CompletionResultType]::ParameterName, 'Show the pods of all namespaces, as is the default')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'plegctl;sim' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Name every scenario')
            [CompletionResult]::new('describe', 'describe', [CompletionResultType]::ParameterValue, 'Say what is wrong in a scenario, what a kubelet would show and what to try')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;sim;list' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;sim;describe' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;sim;serve' {
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'Socket to make, with or without `unix://`; nothing may be there yet')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;sim;help' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Name every scenario')
            [CompletionResult]::new('describe', 'describe', [CompletionResultType]::ParameterValue, 'Say what is wrong in a scenario, what a kubelet would show and what to try')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;sim;help;list' {
            break
        }
        'plegctl;sim;help;describe' {
            break
        }
        'plegctl;sim;help;serve' {
            break
        }
        'plegctl;sim;help;help' {
            break
        }
        'plegctl;completions' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;man' {
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('--runtime-endpoint', '--runtime-endpoint', [CompletionResultType]::ParameterName, 'Runtime to ask: `unix:///path`, `/path` or `sim:SCENARIO` [default: `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet''s, the well-known sockets]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'crictl''s settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]')
            [CompletionResult]::new('--host-root', '--host-root', [CompletionResultType]::ParameterName, 'The node''s root, for a debug pod that sees it elsewhere [default: /host if a node is mounted there, else /]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Deadline of each call to the runtime [default: 10s; 2m for `watch`]')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether to colour what goes to a terminal')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Leave out progress and notes')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: which runtime was chosen and why; twice for every call')
            [CompletionResult]::new('--no-headers', '--no-headers', [CompletionResultType]::ParameterName, 'Leave out table headers')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'plegctl;help' {
            [CompletionResult]::new('health', 'health', [CompletionResultType]::ParameterValue, 'The verdict and the culprit: which call, which pod, which container holds PLEG up, and what to do first')
            [CompletionResult]::new('relist', 'relist', [CompletionResultType]::ParameterValue, 'One relist: every pod and container as the kubelet would see them now, each call timed')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'The kubelet''s PLEG, live: every event it would have seen, every relist timed')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'What the kubelet''s PLEG would have emitted between two relists, and what it would not have noticed')
            [CompletionResult]::new('nodes', 'nodes', [CompletionResultType]::ParameterValue, 'The PLEG of every node of the cluster, the worst first: age of the last relist, its durations, events lost')
            [CompletionResult]::new('record', 'record', [CompletionResultType]::ParameterValue, 'The flight recorder: keeps what every call to the runtime came to, so that any question can be asked afterwards')
            [CompletionResult]::new('capture', 'capture', [CompletionResultType]::ParameterValue, 'What the flight recorder kept: list it, check it, cut a part out of it, report on it')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'What a finding''s id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list')
            [CompletionResult]::new('stacks', 'stacks', [CompletionResultType]::ParameterValue, 'Who waits for whom inside containerd, its shim, CRI-O or a kubelet, told from a goroutine dump')
            [CompletionResult]::new('static-pods', 'static-pods', [CompletionResultType]::ParameterValue, 'Static pods: what the kubelet of this node runs from files')
            [CompletionResult]::new('pods', 'pods', [CompletionResultType]::ParameterValue, 'What the kubelet is told to run, from every source, and what became of it')
            [CompletionResult]::new('sim', 'sim', [CompletionResultType]::ParameterValue, 'Simulated runtimes: what there is, what each teaches, and one on a real socket')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page for every command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'plegctl;help;health' {
            break
        }
        'plegctl;help;relist' {
            break
        }
        'plegctl;help;watch' {
            break
        }
        'plegctl;help;diff' {
            break
        }
        'plegctl;help;nodes' {
            break
        }
        'plegctl;help;record' {
            break
        }
        'plegctl;help;capture' {
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Say what is in a capture: from when to when, and which incidents')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write a part of a capture to one file, which is a capture like any other')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Tell the story: relist latency, age against the threshold, incidents, who did what')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Read every entry and every answer, and say what is gone; exit status 1 if anything is')
            break
        }
        'plegctl;help;capture;ls' {
            break
        }
        'plegctl;help;capture;export' {
            break
        }
        'plegctl;help;capture;report' {
            break
        }
        'plegctl;help;capture;check' {
            break
        }
        'plegctl;help;explain' {
            break
        }
        'plegctl;help;stacks' {
            break
        }
        'plegctl;help;static-pods' {
            [CompletionResult]::new('lint', 'lint', [CompletionResultType]::ParameterValue, 'What the kubelet does with each manifest, what is wrong with it, and whether that is what runs')
            break
        }
        'plegctl;help;static-pods;lint' {
            break
        }
        'plegctl;help;pods' {
            break
        }
        'plegctl;help;sim' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Name every scenario')
            [CompletionResult]::new('describe', 'describe', [CompletionResultType]::ParameterValue, 'Say what is wrong in a scenario, what a kubelet would show and what to try')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Play a scenario on a socket, for any CRI client, until Ctrl-C or SIGTERM')
            break
        }
        'plegctl;help;sim;list' {
            break
        }
        'plegctl;help;sim;describe' {
            break
        }
        'plegctl;help;sim;serve' {
            break
        }
        'plegctl;help;completions' {
            break
        }
        'plegctl;help;man' {
            break
        }
        'plegctl;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
