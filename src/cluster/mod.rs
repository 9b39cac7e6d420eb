//! One `kube::Client` to either cluster; reaching a Service; log following; access reviews; bus state.
