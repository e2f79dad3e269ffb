# The released static binary as a flake. packaging/templates.sh filled it in.
{
  description = "Finds what blocks the PLEG of a Kubernetes node";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      sums = {
        x86_64-linux = { target = "x86_64-unknown-linux-gnu"; sha256 = "@SHA256_X86_64@"; };
        aarch64-linux = { target = "aarch64-unknown-linux-gnu"; sha256 = "@SHA256_AARCH64@"; };
      };
      package = system: { target, sha256 }:
        let pkgs = nixpkgs.legacyPackages.${system};
        in pkgs.stdenvNoCC.mkDerivation {
          pname = "plegctl";
          version = "@VERSION@";
          src = pkgs.fetchurl {
            url = "@DOWNLOAD@/plegctl-@VERSION@-${target}.tar.gz";
            inherit sha256;
          };
          nativeBuildInputs = [ pkgs.installShellFiles ];
          installPhase = ''
            install -D -m 755 plegctl $out/bin/plegctl
            ln -s plegctl $out/bin/kubectl-plegctl
            ln -s plegctl $out/bin/kubectl_complete-plegctl
            installManPage man/*.1
            installShellCompletion --cmd plegctl --bash completions/plegctl.bash --fish completions/plegctl.fish \
              --zsh completions/_plegctl
          '';
          meta = {
            homepage = "@ADDRESS@";
            license = pkgs.lib.licenses.mit;
            mainProgram = "plegctl";
            platforms = builtins.attrNames sums;
            sourceProvenance = [ pkgs.lib.sourceTypes.binaryNativeCode ];
          };
        };
    in {
      packages = builtins.mapAttrs (system: sum: { default = package system sum; }) sums;
    };
}
