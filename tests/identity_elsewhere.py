"""Classes in another module than the code that compares them."""


class Kind:
    pass


class Uses:
    kind = Kind
