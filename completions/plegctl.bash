_plegctl() {
    local IFS=$'\n'
    COMPREPLY=($(PLEGCTL_COMPLETE=bash plegctl -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _plegctl plegctl
