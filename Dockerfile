# The program that runs in the pods of a real cluster: one binary, no shell, not root.
#
#   docker build -t eventlab:dev .
#
# Bases are pinned by version and by the digest of their index for all platforms. To take newer ones, ask
# `docker buildx imagetools inspect IMAGE` for the digest and give both:
#   --build-arg RUST=rust:1.89.0-bookworm@sha256:… --build-arg BASE=gcr.io/distroless/cc-debian12:nonroot@sha256:…
ARG RUST=rust:1.89.0-bookworm@sha256:948f9b08a66e7fe01b03a98ef1c7568292e07ec2e4fe90d88c07bb14563c84ff
ARG BASE=gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f

FROM ${RUST} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock clippy.toml ./
COPY benches benches
COPY labs labs
COPY manifests manifests
COPY src src
COPY tests tests
RUN cargo build --release --locked --bin eventlab && strip target/release/eventlab

# Same Debian as the build: the binary uses its C library.
FROM ${BASE}
COPY --from=build /src/target/release/eventlab /eventlab
USER 65532:65532
ENTRYPOINT ["/eventlab"]
