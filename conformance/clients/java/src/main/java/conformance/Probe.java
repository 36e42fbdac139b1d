package conformance;
class Probe {}
