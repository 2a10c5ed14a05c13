"""The robust objectives and the length-matched batches in other toolkits, one file or folder each.

Each needs only its toolkit and the lower folders of the package, which never import an integration.
"""
